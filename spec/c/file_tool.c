/* A process with a file store in it, told by lines on its standard input what
 * to do; what happens it says in lines on its standard output. So a spec can
 * have several, and kill or stop any of them.
 *
 *   acquire ID KEY UNITS CAP MS [MIN_HOLD_MS]
 *                            MS: 0 try, else wait so long; key in hex
 *   release ID | cancel ID | renew ID | extend ID | downgrade ID
 *   ping | locked KEY | break KEY | revoke KEY | inspect KEY | list [PREFIX]
 *   change ID KEY FENCE      says so when the holder is another
 *   ttl MS                   of the leases that follow
 *   fork                     a child that lives on and does nothing
 *   descriptors N            leaves no more than N to be opened; -1: all
 *   steal PATH [FILE]        closes the store's descriptor of that file; FILE
 *                            gets its number
 *   listed                   how often the directory was read
 *   jam KEY                  takes the key's short mutex and stops itself
 *   stop                     stops itself, outside of any mutex
 *   close                    closes the store and ends
 * Answers: "ID held FENCE", "ID CODE: TEXT", "ID released", "ID lost", … */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"
#include "store/file/dir/dir.h"
#include "store/file/file.h"
#include "store/file/format/name.h"

#define IDS 4096

struct thing {
  char id[24];
  struct dlk_lease *lease;
  struct dlk_op *op;
  struct dlk_timer deadline;
  bool waited; /* somebody else frees its op */
};

static struct thing things[IDS];
static struct host *host;
static const char *dir;
static int64_t ttl = 30 * DLK_SEC;
static size_t buffered;
static char buffer[65536];
static uv_poll_t input; /* ends a turn of the loop when there is a line */

static void say(const char *id, const char *text) {
  printf("%s %s\n", id, text);
  fflush(stdout);
}

static struct thing *find(const char *id) {
  for (size_t i = 0; i < IDS; i++)
    if (strcmp(things[i].id, id) == 0)
      return &things[i];
  return NULL;
}

static struct thing *of_lease(const struct dlk_lease *lease) {
  for (size_t i = 0; i < IDS; i++)
    if (things[i].lease == lease)
      return &things[i];
  return NULL;
}

static void drop(struct thing *t) {
  host->host.timer_clear(&host->host, &t->deadline);
  free(t->lease);
  memset(t, 0, sizeof *t);
}

static void print_value(const struct dlk_value *v) {
  if (v == NULL)
    return;
  if (v->name != NULL)
    printf("%s=", v->name);
  switch (v->kind) {
  case DLK_VALUE_NIL:
    printf("nil");
    return;
  case DLK_VALUE_BOOL:
    printf(v->u.boolean ? "true" : "false");
    return;
  case DLK_VALUE_INT:
    printf("%" PRId64, v->u.integer);
    return;
  case DLK_VALUE_NUMBER:
    printf("%.6f", v->u.number);
    return;
  case DLK_VALUE_STRING:
    for (size_t i = 0; i < v->u.string.len; i++) {
      unsigned char c = (unsigned char)v->u.string.data[i];
      if (c > 32 && c < 127)
        putchar(c);
      else
        printf("\\%02x", c);
    }
    return;
  case DLK_VALUE_LIST:
  case DLK_VALUE_MAP:
  case DLK_VALUE_TUPLE:
    break;
  }
  putchar('{');
  for (const struct dlk_value *c = v->u.children.first; c; c = c->next) {
    print_value(c);
    if (c->next)
      putchar(' ');
  }
  putchar('}');
}

static void on_done(struct host *h, struct dlk_op *op,
                    const struct dlk_error *err) {
  struct thing *t = op->lease != NULL ? of_lease(op->lease) : NULL;
  for (size_t i = 0; t == NULL && i < IDS; i++)
    if (things[i].op == op)
      t = &things[i];
  const char *id = t == NULL ? "-" : t->id;
  char holder[DLK_HOLDER_MAX + 8] = "";
  if (op->holder[0])
    snprintf(holder, sizeof holder, " (%s)", op->holder);
  (void)h;
  if (err != NULL) {
    printf("%s %s%s\n", id, err->text[0] ? err->text : dlk_code_name(err->code),
           holder);
  } else if (op->kind == DLK_OP_ACQUIRE) {
    printf("%s held %" PRId64 "\n", id, op->lease->fence);
  } else if (op->kind == DLK_OP_RELEASE) {
    printf("%s released\n", id);
  } else {
    printf("%s ok ", id);
    print_value(op->result);
    printf("\n");
  }
  fflush(stdout);
  if (t == NULL)
    abort();
  if (t->op == op)
    t->op = NULL;
  host->host.timer_clear(&host->host, &t->deadline);
  bool gone = op->kind == DLK_OP_RELEASE || op->kind == DLK_OP_CHANGE ||
              (op->kind == DLK_OP_ACQUIRE && err != NULL);
  /* Freed as soon as it may be: the store must not touch it any more. */
  if (!t->waited)
    host_op_free(op);
  if (gone)
    drop(t);
}

static void on_lost(struct host *h, struct dlk_lease *lease, const char *why) {
  (void)h;
  struct thing *t = of_lease(lease);
  if (t == NULL)
    abort(); /* the lease was ended: the store must not name it */
  printf("%s lost %s\n", t->id, why);
  fflush(stdout);
}

static void on_revoked(struct host *h, struct dlk_lease *lease) {
  (void)h;
  struct thing *t = of_lease(lease);
  if (t == NULL)
    abort();
  say(t->id, "revoked");
}

static void on_renewed(struct host *h, struct dlk_lease *lease, bool ok) {
  (void)h;
  struct thing *t = of_lease(lease);
  if (t == NULL)
    abort();
  say(t->id, ok ? "renewed" : "renew failed");
}

static void open_store(void) {
  struct dlk_error err = {.code = DLK_OK};
  struct dlk_conf conf = {.shown = dir, .scheme = "file", .path = dir};
  conf.prefix = getenv("PREFIX");
  host = host_open(&dlk_file_store, &conf, &err);
  if (host == NULL) {
    say("-", err.text);
    exit(1);
  }
  host->on_done = on_done;
  host->on_lost = on_lost;
  host->on_revoked = on_revoked;
  host->on_renewed = on_renewed;
}

static size_t unhex(const char *hex, char *out) {
  size_t n = 0;
  for (; hex[2 * n] && hex[2 * n + 1] && n < 1024; n++) {
    char pair[3] = {hex[2 * n], hex[2 * n + 1], 0};
    out[n] = (char)strtol(pair, NULL, 16);
  }
  return n;
}

static void late(struct dlk_timer *timer, int64_t now) {
  struct thing *t = DLK_CONTAINER(timer, struct thing, deadline);
  (void)now;
  host_cancel(host, t->op, DLK_TIMEOUT);
}

static void start(struct thing *t, struct dlk_op *op, long ms) {
  t->op = op;
  t->deadline.fire = late;
  if (ms > 0)
    host->host.timer_set(&host->host, &t->deadline,
                         host->host.now(&host->host) + ms * DLK_MS);
  host_submit(host, op);
}

static struct thing *new_thing(const char *id) {
  struct thing *t = find("");
  if (t == NULL)
    abort();
  snprintf(t->id, sizeof t->id, "%s", id);
  return t;
}

static void acquire(char **w, int n) {
  char key[1024], owner[64];
  size_t len = unhex(w[2], key);
  struct dlk_want want = {(uint32_t)atol(w[3]), (uint32_t)atol(w[4])};
  struct thing *t = new_thing(w[1]);
  snprintf(owner, sizeof owner, "%s/%d", w[1], (int)getpid());
  t->lease = host_lease(host, key, len, want, owner);
  t->lease->ttl = ttl;
  if (n > 6)
    t->lease->min_hold = atol(w[6]) * DLK_MS;
  struct dlk_op *op = host_op(host, DLK_OP_ACQUIRE, t->lease, NULL, 0);
  long ms = atol(w[5]);
  op->wait = ms != 0;
  start(t, op, ms == 0 ? 2000 : ms);
}

static void with_lease(char **w, enum dlk_op_kind kind) {
  struct thing *t = find(w[1]);
  if (t == NULL || t->lease == NULL) {
    say(w[1], "unknown");
    return;
  }
  struct dlk_op *op = host_op(host, kind, t->lease, NULL, 0);
  op->ttl = t->lease->ttl;
  start(t, op, kind == DLK_OP_RELEASE ? 0 : 2000);
}

static void with_key(char **w, int n, enum dlk_op_kind kind) {
  char key[1024];
  size_t len = n > 1 ? unhex(w[1], key) : 0;
  struct thing *t = new_thing(w[0]);
  struct dlk_op *op = host_op(host, kind, NULL, n > 1 ? key : NULL, len);
  op->limit = 1000;
  t->waited = true;
  start(t, op, 2000);
  if (!host_wait(host, op, 5 * DLK_SEC))
    abort();
  host_op_free(op);
  drop(t);
}

static void change(char **w) {
  char key[1024];
  size_t len = unhex(w[2], key);
  struct thing *t = new_thing(w[1]);
  struct dlk_op *op = host_op(host, DLK_OP_CHANGE, NULL, key, len);
  op->fence = atoll(w[3]);
  start(t, op, 0);
}

static void jam(const char *hex) {
  char key[1024], name[DLK_FILE_NAME], path[8192];
  size_t len = unhex(hex, key);
  dlk_file_name(name, key, len);
  snprintf(path, sizeof path, "%s/%s", dir, name);
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
  while (fcntl(fd, F_OFD_SETLK, &lock) != 0)
    usleep(100);
  say("-", "jammed");
  raise(SIGSTOP);
  lock.l_type = F_UNLCK;
  fcntl(fd, F_OFD_SETLK, &lock);
  close(fd);
  say("-", "unjammed");
}

static void fork_child(void) {
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, 0);
    close(0);
    close(1);
    close(2);
    for (;;)
      pause();
  }
  printf("- forked %d\n", (int)pid);
  fflush(stdout);
}

/* The limit counts numbers, not open files, so gaps are counted here. */
static void descriptors(int left) {
  static struct rlimit usual;
  struct rlimit limit;
  int fd = 0;
  if (usual.rlim_cur == 0)
    getrlimit(RLIMIT_NOFILE, &usual);
  limit = usual;
  for (; left >= 0; fd++)
    if (fcntl(fd, F_GETFD) < 0 && left-- == 0)
      limit.rlim_cur = (rlim_t)fd;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/* As a program does that closes a number twice. */
static void steal(const char *path, const char *file) {
  struct stat want, st;
  if (stat(path, &want) != 0)
    abort();
  for (int fd = 3; fd < 1024; fd++) {
    if (fstat(fd, &st) != 0 || st.st_dev != want.st_dev ||
        st.st_ino != want.st_ino)
      continue;
    close(fd);
    int other = file != NULL ? open(file, O_RDWR) : -1;
    if (file != NULL && dup2(other, fd) < 0)
      abort();
    if (other >= 0 && other != fd)
      close(other);
    say("-", "stolen");
    return;
  }
  say("-", "not open");
}

static void finish(void) {
  uv_close((uv_handle_t *)&input, NULL);
  host_close(host);
  for (size_t i = 0; i < IDS; i++)
    free(things[i].lease);
  say("-", "closed");
  exit(0);
}

/* ---- what it costs ---- */

static int listed;

DIR *__real_dlk_file_dir_list(const struct dlk_file_dir *d);
DIR *__wrap_dlk_file_dir_list(const struct dlk_file_dir *d);

DIR *__wrap_dlk_file_dir_list(const struct dlk_file_dir *d) {
  listed++;
  return __real_dlk_file_dir_list(d);
}

static void say_listed(void) {
  char text[16];
  snprintf(text, sizeof text, "%d", listed);
  say("listed", text);
}

static void command(char **w, int n) {
  const char *c = w[0];
  struct thing *t = n > 1 ? find(w[1]) : NULL;
  if (strcmp(c, "acquire") == 0)
    acquire(w, n);
  else if (strcmp(c, "release") == 0)
    with_lease(w, DLK_OP_RELEASE);
  else if (strcmp(c, "extend") == 0)
    with_lease(w, DLK_OP_EXTEND);
  else if (strcmp(c, "downgrade") == 0)
    with_lease(w, DLK_OP_DOWNGRADE);
  else if (strcmp(c, "cancel") == 0 && t && t->op)
    host_cancel(host, t->op, DLK_CANCELLED);
  else if (strcmp(c, "renew") == 0 && t)
    host->type->renew(host->store, &t->lease, 1);
  else if (strcmp(c, "ping") == 0)
    with_key(w, n, DLK_OP_PING);
  else if (strcmp(c, "locked") == 0)
    with_key(w, n, DLK_OP_LOCKED);
  else if (strcmp(c, "break") == 0)
    with_key(w, n, DLK_OP_BREAK);
  else if (strcmp(c, "revoke") == 0)
    with_key(w, n, DLK_OP_REVOKE);
  else if (strcmp(c, "inspect") == 0)
    with_key(w, n, DLK_OP_INSPECT);
  else if (strcmp(c, "list") == 0)
    with_key(w, n, DLK_OP_LIST);
  else if (strcmp(c, "change") == 0)
    change(w);
  else if (strcmp(c, "jam") == 0)
    jam(w[1]);
  else if (strcmp(c, "fork") == 0)
    fork_child();
  else if (strcmp(c, "ttl") == 0 && n > 1)
    ttl = atol(w[1]) * DLK_MS;
  else if (strcmp(c, "descriptors") == 0 && n > 1)
    descriptors(atoi(w[1]));
  else if (strcmp(c, "steal") == 0 && n > 1)
    steal(w[1], n > 2 ? w[2] : NULL);
  else if (strcmp(c, "listed") == 0)
    say_listed();
  else if (strcmp(c, "stop") == 0) {
    say(c, "now");
    raise(SIGSTOP);
  } else if (strcmp(c, "close") == 0)
    finish();
  else
    say(c, "unknown command");
}

static void line_read(char *line) {
  char *words[8];
  int n = 0;
  for (char *p = strtok(line, " "); p && n < 8; p = strtok(NULL, " "))
    words[n++] = p;
  if (n > 0)
    command(words, n);
}

/* Outside of the loop, because some commands run the loop themselves. */
static bool read_input(void) {
  ssize_t n = read(0, buffer + buffered, sizeof buffer - 1 - buffered);
  if (n == 0)
    return false;
  if (n < 0)
    return true;
  buffered += (size_t)n;
  buffer[buffered] = '\0';
  char *end;
  while ((end = strchr(buffer, '\n')) != NULL) {
    static char line[sizeof buffer];
    *end = '\0';
    memcpy(line, buffer, (size_t)(end - buffer) + 1);
    buffered -= (size_t)(end + 1 - buffer);
    memmove(buffer, end + 1, buffered + 1);
    line_read(line);
  }
  return true;
}

static void on_input(uv_poll_t *poll, int status, int events) {
  (void)poll;
  (void)status;
  (void)events;
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  dir = argv[1];
  open_store();
  fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
  uv_poll_init(&host->loop, &input, 0);
  uv_poll_start(&input, UV_READABLE, on_input);
  say("-", "ready");
  while (read_input())
    host_turn(host, 50 * DLK_MS);
  return 0;
}
