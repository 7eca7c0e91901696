#ifndef DLK_ENGINE_CONF_H
#define DLK_ENGINE_CONF_H

#include "store/store.h"

/* Returns the block of *size_out bytes that *to and *name_out point into, or
 * NULL without memory. */
void *dlk_conf_copy(const struct dlk_conf *from, const char *name,
                    struct dlk_conf *to, const char **name_out,
                    size_t *size_out);
/* Wipes it first. */
void dlk_conf_free(void *memory, size_t size);

#endif
