/* Lists of servers for the client library.
 *
 * Odd length. After a failure the library passes one server over
 * (ZOOKEEPER-2466): of two servers it retries one, of an even number half.
 * Steps of two reach all of an odd list.
 *
 * Spelling. The library resolves even addresses, without families whose only
 * address is loopback (AI_ADDRCONFIG). So 127.0.0.1 fails on a machine with
 * IPv6 interfaces only; mapped into IPv6 it works. ::1 on a machine without
 * IPv6 has no other spelling (zookeeper.md).
 *
 * maxClientCnxns. A server at that limit accepts and closes; one without a
 * quorum closes only after a request. A connection without a request tells them
 * apart. */
#include "store/zookeeper/client/hosts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/status.h"

#define CONNECT_MS 500
#define SHUT_MS 300

char *dlk_zk_hosts_odd(const char *hosts, uint32_t lot) {
  size_t count = 1;
  for (const char *p = hosts; *p; p++)
    count += *p == ',';
  if (count % 2 != 0)
    return strdup(hosts);
  const char *one = hosts;
  for (size_t i = lot % count; i > 0; i--)
    one = strchr(one, ',') + 1;
  size_t length = strcspn(one, ","), size = strlen(hosts) + length + 2;
  char *copy = malloc(size);
  if (copy)
    snprintf(copy, size, "%s,%.*s", hosts, (int)length, one);
  return copy;
}

/* The list's first; next_host gives the rest, or NULL. */
struct host {
  char name[256];
  const char *port;
  int port_len;
};

static const char *next_host(const char *hosts, struct host *h) {
  size_t len = strcspn(hosts, ","), at = len;
  while (at > 0 && hosts[at] != ':')
    at--;
  snprintf(h->name, sizeof h->name, "%.*s", (int)at, hosts);
  h->port = hosts + at + 1;
  h->port_len = (int)(len - at) - 1;
  return hosts[len] == ',' ? hosts + len + 1 : NULL;
}

/* As the library asks. */
static bool is_taken(const char *address) {
  const struct addrinfo how = {.ai_flags = AI_ADDRCONFIG | AI_NUMERICHOST,
                               .ai_socktype = SOCK_STREAM};
  struct addrinfo *found;
  if (getaddrinfo(address, NULL, &how, &found) != 0)
    return false;
  freeaddrinfo(found);
  return true;
}

static void spell(struct dlk_buf *out, const char *name, const struct host *h) {
  struct in_addr bytes;
  bool mapped = inet_pton(AF_INET, name, &bytes) == 1 && !is_taken(name);
  dlk_buf_addf(out, "%s%s%s:%.*s", out->len > 0 ? "," : "",
               mapped ? "::ffff:" : "", name, h->port_len, h->port);
}

static bool spell_all(struct dlk_buf *out, const struct host *h) {
  const struct addrinfo how = {.ai_socktype = SOCK_STREAM};
  struct addrinfo *found;
  char address[INET6_ADDRSTRLEN + 20];
  if (getaddrinfo(h->name, NULL, &how, &found) != 0)
    return false;
  for (const struct addrinfo *a = found; a; a = a->ai_next)
    if (getnameinfo(a->ai_addr, a->ai_addrlen, address, sizeof address, NULL, 0,
                    NI_NUMERICHOST) == 0)
      spell(out, address, h);
  freeaddrinfo(found);
  return true;
}

char *dlk_zk_hosts_spelled(const char *hosts, bool look_up) {
  struct dlk_buf out = {0};
  struct host h;
  while (hosts) {
    hosts = next_host(hosts, &h);
    if (!look_up || !spell_all(&out, &h))
      spell(&out, h.name, &h);
  }
  dlk_buf_add(&out, "", 1);
  if (!out.failed)
    return out.data;
  dlk_buf_free(&out);
  return NULL;
}

/* ---- a connection that asks for nothing ---- */

static bool happens(int fd, short events, int ms) {
  struct pollfd p = {.fd = fd, .events = events};
  return poll(&p, 1, ms) == 1;
}

static int trouble_at(const struct addrinfo *a) {
  int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  char byte;
  int problem = 0, trouble = 0;
  socklen_t size = sizeof problem;
  if (fd < 0)
    return 0;
  if (connect(fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS)
    trouble = dlk_errno_code(errno) == DLK_DENIED ? errno : 0;
  else if (happens(fd, POLLOUT, CONNECT_MS) &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &size) == 0 &&
           problem == 0 && happens(fd, POLLIN, SHUT_MS) &&
           recv(fd, &byte, 1, 0) <= 0)
    trouble = DLK_ZK_SHUT;
  close(fd);
  return trouble;
}

int dlk_zk_hosts_trouble(const char *hosts) {
  const struct addrinfo how = {.ai_socktype = SOCK_STREAM};
  struct host h;
  int64_t until = dlk_clock_now() + DLK_SEC;
  int denied = 0;
  bool others = false;
  while (hosts && dlk_clock_now() < until) {
    struct addrinfo *found;
    char port[8];
    int trouble = 0;
    hosts = next_host(hosts, &h);
    snprintf(port, sizeof port, "%.*s", h.port_len, h.port);
    if (getaddrinfo(h.name, port, &how, &found) == 0) {
      trouble = trouble_at(found);
      freeaddrinfo(found);
    }
    if (trouble == DLK_ZK_SHUT)
      return trouble;
    denied = trouble ? trouble : denied;
    others |= trouble == 0;
  }
  return others || hosts ? 0 : denied;
}
