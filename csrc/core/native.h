/* Threads of dlock's own. All signals are blocked in them from birth, so no
 * handler of the program runs there. */
#ifndef DLK_CORE_NATIVE_H
#define DLK_CORE_NATIVE_H

#include <pthread.h>
#include <stddef.h>

/* thread NULL: it is detached. stack 0: the system's size. 0, or an errno. */
int dlk_native_start(pthread_t *thread, size_t stack, void *(*run)(void *arg),
                     void *arg);

/* Whether `count` more threads (at most 4) can be had at once, by trying, which
 * may take seconds. 0, or an errno. */
int dlk_native_room(size_t count);

#endif
