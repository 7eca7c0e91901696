/* Something to be run later, handed on from any thread. */
#ifndef DLK_CORE_POST_H
#define DLK_CORE_POST_H

#include <stdatomic.h>

/* Its owner may not post it again before it ran. Zeroed and with `run` set it
 * is ready for use. */
struct dlk_post {
  void (*run)(struct dlk_post *post);
  struct dlk_post *next; /* the loop's, as what follows */
  atomic_bool queued;
};

#endif
