/* A socket of this process with itself, as the wakeup of nginx: see socket.c.
 * All but the beat by the listener's thread. */
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
/* Listens; the path to connect to, or NULL and err. */
const char *dlk_socket_serve(struct dlk_socket *s, struct dlk_error *err);
/* Once it has been connected to from this process; false: it was not. */
bool dlk_socket_accept(struct dlk_socket *s);
/* Ends it, whatever its state. */
void dlk_socket_hang_up(struct dlk_socket *s);

#endif
