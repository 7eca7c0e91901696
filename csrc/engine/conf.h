/* The copy of what open() was told. */
#ifndef DLK_ENGINE_CONF_H
#define DLK_ENGINE_CONF_H

#include "store/store.h"

/* The block of *size_out bytes that *to and *name_out point into; NULL: out of
 * memory. */
void *dlk_conf_copy(const struct dlk_conf *from, const char *name,
                    struct dlk_conf *to, const char **name_out,
                    size_t *size_out);
/* With all secrets that are in it. memory NULL: nothing. */
void dlk_conf_free(void *memory, size_t size);

#endif
