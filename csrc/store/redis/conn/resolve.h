/* Looking up a host's name, which may take half a minute, without anybody
 * having to wait for its end. */
#ifndef DLK_STORE_REDIS_CONN_RESOLVE_H
#define DLK_STORE_REDIS_CONN_RESOLVE_H

struct addrinfo;
struct uv_loop_s;
struct dlk_redis_lookup;
struct dlk_redis_resolved; /* an answer, which others may have as well */

/* status: getaddrinfo's. The answer is the caller's, to be freed below. Called
 * once, in the loop, unless it was cancelled before. */
typedef void dlk_redis_found(void *arg, int status,
                             struct dlk_redis_resolved *answer);

/* Begins; 0 and *out, or an errno. gone(arg) is called, later and from the
 * loop, when nothing of it is left there. */
int dlk_redis_lookup_start(struct uv_loop_s *loop, const char *host,
                           const char *port, dlk_redis_found *found,
                           void (*gone)(void *arg), void *arg,
                           struct dlk_redis_lookup **out);
/* Nobody wants to know any more; also inside or after `found`. */
void dlk_redis_lookup_end(struct dlk_redis_lookup *l);

/* NULL: it has none. */
const struct addrinfo *
dlk_redis_resolved_list(const struct dlk_redis_resolved *a);
void dlk_redis_resolved_free(struct dlk_redis_resolved *a); /* or NULL */

#endif
