/* Threads of ours, which the program did not make and does not know of. All
 * signals are blocked in them from their birth, and so in the threads that a
 * library starts on them: a handler of the program's never runs there. */
#ifndef DLK_CORE_NATIVE_H
#define DLK_CORE_NATIVE_H

#include <pthread.h>
#include <stddef.h>

/* Starts run(arg). thread: who joins it, NULL: nobody does. stack: its size, 0:
 * the system's. 0, or an errno. */
int dlk_native_start(pthread_t *thread, size_t stack, void *(*run)(void *arg),
                     void *arg);

/* Whether so many more threads as a library starts them can be had at once:
 * they are started and ended. 0, or an errno. It may wait, for a second. */
int dlk_native_room(size_t count);

#endif
