/* The engines in use, of all Lua states of the process: see in_use.c. */
#ifndef DLK_ENGINE_IN_USE_H
#define DLK_ENGINE_IN_USE_H

#include "engine/engine.h"

/* at_exit: run when the process exits. Once, before any engine is used. */
bool dlk_in_use_begin(void (*at_exit)(void));
/* What TLS needs is there by now. */
void dlk_in_use_behind_tls(void);
/* From its first use to its join; the caller has a reference. */
void dlk_in_use_add(struct dlk_engine *e);
void dlk_in_use_remove(struct dlk_engine *e);
size_t dlk_in_use_count(void);
/* References on those that are open, ended by NULL; or NULL. */
struct dlk_engine **dlk_in_use_list(void);

#endif
