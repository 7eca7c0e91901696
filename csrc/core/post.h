/* A function to be run later, posted by any thread. Zeroed and with `run` set
 * it is ready. */
#ifndef DLK_CORE_POST_H
#define DLK_CORE_POST_H

#include <stdatomic.h>

/* Its owner may post it again once it began to run. */
struct dlk_post {
  void (*run)(struct dlk_post *post);
  struct dlk_post *next; /* the loop's, like `queued` */
  atomic_bool queued;
};

#endif
