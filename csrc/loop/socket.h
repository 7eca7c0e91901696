/* nginx's wakeup: a socket of this process with itself. All but the beat runs
 * in the listener's thread. */
#ifndef DLK_LOOP_SOCKET_H
#define DLK_LOOP_SOCKET_H

#include "core/status.h"
#include "loop/loop.h"

struct dlk_socket {
  struct dlk_loop *loop;
  int listen_fd;
  char path[108];
  struct dlk_timer beat;
  struct dlk_post begin;
};

void dlk_socket_init(struct dlk_socket *s, struct dlk_loop *l);
/* The path to connect to, or NULL and err. */
const char *dlk_socket_serve(struct dlk_socket *s, struct dlk_error *err);
/* False: this process has not connected. */
bool dlk_socket_accept(struct dlk_socket *s);
void dlk_socket_hang_up(struct dlk_socket *s);

#endif
