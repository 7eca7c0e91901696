/* Lets allocations of dlock's own C code fail, whatever Lua runs it: a Lua
 * state's allocator cannot be exchanged on LuaJIT, and what C allocates never
 * goes through it anyway.
 *
 * Each library that is loaded has a table of the functions that it takes from
 * others. starve_begin puts ours into the tables of dlock's libraries and of
 * hiredis, whose codec works for dlock; libuv, the C library and Lua keep
 * theirs. What we replaced is called when there is to be memory, so this also
 * works below a sanitizer's allocator.
 *
 * The functions are for package.loadlib, get a Lua state that they ignore, and
 * are told by the environment of this process (so no lua.h is needed):
 *   starve_begin   patches what is loaded; again after another library came
 *   starve_arm     $STARVE_AT=n: the nth allocation from now on fails, and with
 *                  $STARVE_LASTING=1 all behind it
 *   starve_disarm  none fails; $STARVE_FAILED says how many did, and
 *                  $STARVE_ASKED how many were asked for */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_long asked, at, failed;
static atomic_bool lasting;

static bool fails(void) {
  long first = atomic_load(&at), n = atomic_fetch_add(&asked, 1) + 1;
  bool now = first > 0 && (atomic_load(&lasting) ? n >= first : n == first);
  if (now)
    atomic_fetch_add(&failed, 1);
  return now;
}

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static char *(*real_strdup)(const char *);
static char *(*real_strndup)(const char *, size_t);

static void *my_malloc(size_t n) {
  return fails() ? NULL : real_malloc(n);
}

static void *my_calloc(size_t n, size_t size) {
  return fails() ? NULL : real_calloc(n, size);
}

static void *my_realloc(void *p, size_t n) {
  return fails() ? NULL : real_realloc(p, n);
}

static char *my_strdup(const char *s) {
  return fails() ? NULL : real_strdup(s);
}

static char *my_strndup(const char *s, size_t n) {
  return fails() ? NULL : real_strndup(s, n);
}

static const struct {
  const char *name;
  void *ours;
  void **real;
} taken[] = {
    {"malloc", (void *)my_malloc, (void **)&real_malloc},
    {"calloc", (void *)my_calloc, (void **)&real_calloc},
    {"realloc", (void *)my_realloc, (void **)&real_realloc},
    {"strdup", (void *)my_strdup, (void **)&real_strdup},
    {"strndup", (void *)my_strndup, (void **)&real_strndup},
};

static void put(const char *name, void **slot) {
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
    if (strcmp(name, taken[i].name) != 0 || *slot == taken[i].ours)
      continue;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *start = (void *)((size_t)slot & ~(page - 1));
    *taken[i].real = *slot;
    mprotect(start, page, PROT_READ | PROT_WRITE);
    *slot = taken[i].ours;
  }
}

/* The table's entries of one library: DT_JMPREL, and DT_RELA for those whose
 * address is taken. */
static int patch(struct dl_phdr_info *info, size_t size, void *arg) {
  const ElfW(Dyn) *d = NULL;
  const ElfW(Sym) *symbols = NULL;
  const char *names = NULL;
  const ElfW(Rela) * table[2] = {NULL, NULL};
  size_t bytes[2] = {0, 0};
  (void)size;
  (void)arg;
  if (!strstr(info->dlpi_name, "/dlock/") &&
      !strstr(info->dlpi_name, "libhiredis"))
    return 0;
  for (int i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
      d = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  for (; d && d->d_tag != DT_NULL; d++) {
    const void *p = (const void *)d->d_un.d_ptr;
    switch (d->d_tag) {
    case DT_SYMTAB:
      symbols = p;
      break;
    case DT_STRTAB:
      names = p;
      break;
    case DT_JMPREL:
      table[0] = p;
      break;
    case DT_PLTRELSZ:
      bytes[0] = d->d_un.d_val;
      break;
    case DT_RELA:
      table[1] = p;
      break;
    case DT_RELASZ:
      bytes[1] = d->d_un.d_val;
      break;
    default:
      break;
    }
  }
  for (int t = 0; t < 2; t++)
    for (size_t i = 0; table[t] && i < bytes[t] / sizeof **table; i++) {
      const ElfW(Sym) *s = &symbols[ELF64_R_SYM(table[t][i].r_info)];
      if (s->st_shndx == SHN_UNDEF)
        put(names + s->st_name,
            (void **)(info->dlpi_addr + table[t][i].r_offset));
    }
  return 0;
}

int starve_begin(void *lua) {
  (void)lua;
  dl_iterate_phdr(patch, NULL);
  return 0;
}

int starve_arm(void *lua) {
  const char *all = getenv("STARVE_LASTING");
  (void)lua;
  atomic_store(&at, 0);
  atomic_store(&asked, 0);
  atomic_store(&failed, 0);
  atomic_store(&lasting, all && *all == '1');
  atomic_store(&at, atol(getenv("STARVE_AT")));
  return 0;
}

static void tell(const char *name, long n) {
  char text[24];
  snprintf(text, sizeof text, "%ld", n);
  setenv(name, text, 1);
}

int starve_disarm(void *lua) {
  (void)lua;
  atomic_store(&at, 0);
  tell("STARVE_FAILED", atomic_load(&failed));
  tell("STARVE_ASKED", atomic_load(&asked));
  return 0;
}
