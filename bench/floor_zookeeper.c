/* The floor for ZooKeeper: what an uncontended pair costs with the same client
 * library and nothing else: create (ephemeral sequential) and get_children in
 * one go, then delete, each awaited on a condition variable. dlock's bench
 * compares itself with it.
 *
 *   floor_zookeeper host:port pairs      prints pairs per second */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zookeeper/zookeeper.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool connected;
static int waiting, problem;
static char node[512];

static void finished(int rc) {
  pthread_mutex_lock(&lock);
  if (rc != ZOK)
    problem = rc;
  if (--waiting <= 0 || problem != ZOK) /* one wake-up for both answers */
    pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

static void on_created(int rc, const char *path, const struct Stat *stat,
                       const void *data) {
  (void)stat;
  (void)data;
  if (rc == ZOK)
    snprintf(node, sizeof node, "%s", path);
  finished(rc);
}

static void on_children(int rc, const struct String_vector *names,
                        const void *data) {
  (void)names;
  (void)data;
  finished(rc);
}

static void on_void(int rc, const void *data) {
  (void)data;
  finished(rc);
}

static void on_string(int rc, const char *path, const void *data) {
  (void)path;
  (void)data;
  finished(rc == ZNODEEXISTS ? ZOK : rc);
}

static void on_session(zhandle_t *zh, int type, int state, const char *path,
                       void *context) {
  (void)zh;
  (void)path;
  (void)context;
  pthread_mutex_lock(&lock);
  if (type == ZOO_SESSION_EVENT)
    connected = state == ZOO_CONNECTED_STATE;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

static void await(int sent) {
  pthread_mutex_lock(&lock);
  if (sent != ZOK)
    problem = sent;
  while (waiting > 0 && problem == ZOK)
    pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  if (problem != ZOK) {
    fprintf(stderr, "floor_zookeeper: %s\n", zerror(problem));
    exit(1);
  }
}

static void expect(int count) {
  pthread_mutex_lock(&lock);
  waiting = count;
  pthread_mutex_unlock(&lock);
}

static void make(zhandle_t *zh, const char *path) {
  expect(1);
  await(zoo_acreate(zh, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER,
                    on_string, NULL));
}

static void pair(zhandle_t *zh) {
  static const char data[] = "owner=floor/1\nunits=0\ncap=0\nttl=30000\n";
  expect(2);
  int rc = zoo_acreate2(zh, "/dlock-floor/lock/x-", data, sizeof data - 1,
                        &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL,
                        on_created, NULL);
  if (rc == ZOK)
    rc = zoo_aget_children(zh, "/dlock-floor/lock", 0, on_children, NULL);
  await(rc);
  expect(1);
  await(zoo_adelete(zh, node, -1, on_void, NULL));
}

static double seconds(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
  long pairs = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
  if (pairs < 1) {
    fprintf(stderr, "usage: floor_zookeeper host:port pairs\n");
    return 2;
  }
  zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
  zhandle_t *zh = zookeeper_init(argv[1], on_session, 10000, NULL, NULL, 0);
  if (!zh)
    return 1;
  pthread_mutex_lock(&lock);
  while (!connected)
    pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  make(zh, "/dlock-floor");
  make(zh, "/dlock-floor/lock");
  for (long i = 0; i < pairs / 10 + 1; i++)
    pair(zh);
  double start = seconds();
  for (long i = 0; i < pairs; i++)
    pair(zh);
  printf("%.1f\n", (double)pairs / (seconds() - start));
  zookeeper_close(zh);
  return 0;
}
