/* See in_use.c. */
#ifndef DLK_ENGINE_IN_USE_H
#define DLK_ENGINE_IN_USE_H

#include "engine/engine.h"

/* To be called once, before any engine is used. */
bool dlk_in_use_begin(void (*at_exit)(void));
/* TLS is ready by now. */
void dlk_in_use_behind_tls(void);
/* From first use to join; the caller has a reference. */
void dlk_in_use_add(struct dlk_engine *e);
void dlk_in_use_remove(struct dlk_engine *e);
size_t dlk_in_use_count(void);
/* Returns references on the open ones, ended by NULL; or NULL. */
struct dlk_engine **dlk_in_use_list(void);

#endif
