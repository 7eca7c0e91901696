/* The floor under `make bench` on ZooKeeper, as a worker of bench/crowd.lua:
 * what can be had at the least from the same client library. Each answer is
 * awaited on a condition variable.
 *
 *   floor_zookeeper HOST:PORT pairs
 *       create (ephemeral sequential) and get_children in one go, then delete,
 *       in a directory of its own
 *   floor_zookeeper HOST:PORT handoff MS
 *       one of many in one directory, who hold for MS each: create and
 *       get_children in one go, get of the node ahead with a watch; when that
 *       is deleted, the lock is held, without another list. Nobody gives up
 *       here and no connection is lost. */
#include "floor.h"
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool connected;
static int waiting, problem;
static char directory[64], node[512], ahead[512];

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

/* The last name below ours, if there is one: all begin alike, and sequence
 * numbers have ten digits. */
static void on_children(int rc, const struct String_vector *names,
                        const void *data) {
  (void)data;
  const char *mine = strrchr(node, '/'), *last = NULL;
  for (int i = 0; rc == ZOK && mine && i < names->count; i++)
    if (strcmp(names->data[i], mine + 1) < 0 &&
        (!last || strcmp(names->data[i], last) > 0))
      last = names->data[i];
  ahead[0] = '\0';
  if (last)
    snprintf(ahead, sizeof ahead, "%s/%s", directory, last);
  finished(rc);
}

/* Gone already: there is no event to come. */
static void on_got(int rc, const char *value, int length,
                   const struct Stat *stat, const void *data) {
  (void)value;
  (void)length;
  (void)stat;
  (void)data;
  if (rc == ZNONODE)
    finished(ZOK);
  finished(rc == ZNONODE ? ZOK : rc);
}

static void on_event(zhandle_t *zh, int type, int state, const char *path,
                     void *context) {
  (void)zh;
  (void)state;
  (void)path;
  (void)context;
  if (type == ZOO_DELETED_EVENT)
    finished(ZOK);
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

/* A node of ours in the directory, and which is ahead of it. */
static void join(zhandle_t *zh) {
  static const char data[] = "owner=floor/1\nunits=0\ncap=0\nttl=30000\n";
  char path[80];
  snprintf(path, sizeof path, "%s/x-", directory);
  expect(2);
  int rc = zoo_acreate2(zh, path, data, sizeof data - 1, &ZOO_OPEN_ACL_UNSAFE,
                        ZOO_EPHEMERAL_SEQUENTIAL, on_created, NULL);
  if (rc == ZOK)
    rc = zoo_aget_children(zh, directory, 0, on_children, NULL);
  await(rc);
}

static void leave(zhandle_t *zh) {
  expect(1);
  await(zoo_adelete(zh, node, -1, on_void, NULL));
}

static void pairs(zhandle_t *zh) {
  long long stop = floor_go();
  do {
    join(zh);
    leave(zh);
    floor_pairs++;
  } while (floor_now() < stop);
}

static void hand_over(zhandle_t *zh, long ms) {
  long long stop = floor_go();
  bool in_time;
  do {
    join(zh);
    if (ahead[0]) {
      expect(2);
      await(zoo_awget(zh, ahead, on_event, NULL, on_got, NULL));
    }
    in_time = floor_hold(ms, stop);
    leave(zh);
  } while (in_time);
}

int main(int argc, char **argv) {
  bool handing = argc == 4 && strcmp(argv[2], "handoff") == 0;
  if (!handing && !(argc == 3 && strcmp(argv[2], "pairs") == 0)) {
    fprintf(stderr, "usage: floor_zookeeper HOST:PORT pairs\n"
                    "       floor_zookeeper HOST:PORT handoff MS\n");
    return 64;
  }
  zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
  zhandle_t *zh = zookeeper_init(argv[1], on_session, 10000, NULL, NULL, 0);
  if (!zh)
    return 1;
  /* Else its thread asks for the addresses again on each of its turns. */
  zoo_set_servers_resolution_delay(zh, -1);
  pthread_mutex_lock(&lock);
  while (!connected)
    pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  if (handing)
    snprintf(directory, sizeof directory, "/dlock-floor/lock");
  else
    snprintf(directory, sizeof directory, "/dlock-floor/%ld", (long)getpid());
  make(zh, "/dlock-floor");
  make(zh, directory);
  if (handing)
    hand_over(zh, atol(argv[3]));
  else
    pairs(zh);
  floor_done();
  zookeeper_close(zh);
  return 0;
}
