/* What is given up leaves nothing behind.
 *
 * A hold that is lost, a release that is answered, a wait that is over: none
 * of them may stand in a table any longer, for our pipe lives and everybody
 * would wait for us. But an entry can be given up while its file cannot be
 * reached: the file was moved away, or it got a second name and we do not have
 * it open any more. When it comes back the entry is in it. So
 *  - a slot of ours counts as long as an entry of ours claims it
 *    (dlk_file_stays): whoever of our store comes to the key drops the others;
 *  - other stores cannot know that. So each entry that was given up without
 *    a sight of its own file is kept here as an orphan, and its file is looked
 *    for whenever a lease of ours is renewed, or one that waits looks; that
 *    happens as long as we claim anything;
 *  - when we claim nothing any more our pipe is closed, and with it all the
 *    orphans are dead for everybody. The next operation makes a new one.
 * Only the file in which it stood settles an orphan: another one may have taken
 * its name for a while. A release or a cancel that comes through leaves none,
 * and neither does a hold that was broken. There may be some that are none (the
 * commit failed, the file was deleted): these cost a look, or a new pipe. */
#include "store/file/recipe/orphan.h"

#include <stdlib.h>

#include "store/file/dir/liveness.h"
#include "store/file/recipe/queue.h"

#define TURN 16 /* looked for in one go */

static void drop(struct dlk_file_orphan *o) {
  dlk_list_remove(&o->link);
  free(o);
}

/* A waiter leaves as one that is cancelled, a hold as one that is released. */
static void take_out(struct dlk_file_dir *d, struct dlk_file_orphan *o) {
  struct dlk_file_key *k;
  if (dlk_file_key_enter(d, o->key, o->len, false, &k) != 0)
    return;
  bool in = dlk_file_entry_stands(d, k, &o->entry);
  if (in && dlk_file_table_at(&d->table, o->entry.slot)->list == DLK_FILE_HELD)
    dlk_file_let_go(d, o->entry.slot, false);
  else if (in)
    dlk_file_withdraw(d, o->entry.slot);
  dlk_file_tell(d);
  if (dlk_file_key_leave(d, k) == 0 && in)
    o->entry.slot = 0;
}

void dlk_file_orphans_try(struct dlk_file_store *s) {
  struct dlk_file_dir *d = &s->dir;
  for (int i = 0; i < TURN && !dlk_list_empty(&s->orphans); i++) {
    struct dlk_file_orphan *o =
        DLK_CONTAINER(s->orphans.next, struct dlk_file_orphan, link);
    if (o->entry.instance == d->instance)
      take_out(d, o);
    dlk_list_remove(&o->link);
    dlk_list_append(&s->orphans, &o->link);
    if (o->entry.instance != d->instance || o->entry.slot == 0)
      drop(o);
  }
  if (dlk_list_empty(&s->orphans) || s->entries.count > 0)
    return;
  dlk_file_wake_close(d);
  dlk_file_orphans_free(s);
}

void dlk_file_orphans_free(struct dlk_file_store *s) {
  while (!dlk_list_empty(&s->orphans))
    drop(DLK_CONTAINER(s->orphans.next, struct dlk_file_orphan, link));
}
