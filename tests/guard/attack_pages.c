/*
 * Arguments in every kind of memory: across a page's edge, at the end of a mapping, read-only, in a
 * shared file and beyond its end, and unmapped during the call. Whatever the call returns, the
 * guard charges what the driver allocated.
 *
 *   attack_pages [TRIES]     with memory that is unmapped during the call
 */
#include "attack.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define SMALL  (2 * PAGE)
#define MINE   0x1001u
#define PAGES  3
#define LENGTH ((size_t)sysconf(_SC_PAGESIZE))

static struct rmclient client;

/* Three pages, of which the last is not there. */
static char *three_pages(int flags, int fd)
{
    char *pages = mmap(NULL, PAGES * LENGTH, PROT_READ | PROT_WRITE, flags, fd, 0);

    CHECK(pages != MAP_FAILED);
    CHECK_EQUAL(munmap(pages + 2 * LENGTH, LENGTH), 0);
    return pages;
}

static void put_params(char *at)
{
    memcpy(at, &(struct rm_memory_params){.attr = ATTR_4K, .size = SMALL},
           sizeof(struct rm_memory_params));
}

static void put_alloc(char *at, const void *params)
{
    memcpy(at,
           &(struct rm_alloc){.root = client.client,
                              .parent = client.device,
                              .handle = MINE,
                              .class_id = RM_CLASS_MEMORY_LOCAL_USER,
                              .params = (uintptr_t)params,
                              .status = 0xbad},
           sizeof(struct rm_alloc));
}

static int call(char *alloc, bool indirect)
{
    uint32_t status;
    int rc;

    if (indirect)
        rc = rmclient_call_xfer(client.ctl, RM_ESC_ALLOC, sizeof(struct rm_alloc), alloc);
    else
        rc = rmclient_call(client.ctl, RM_ESC_ALLOC, sizeof(struct rm_alloc), alloc);
    if (rc < 0)
        return rc;
    memcpy(&status, alloc + offsetof(struct rm_alloc, status), sizeof(status));
    return (int)status;
}

/* What the call said is what has become of it. */
static void check_made(bool made)
{
    CHECK_EQUAL(book(&client, 0).gpu_used, made ? SMALL : 0);
    attack_check_room(&client);
    CHECK_EQUAL(rmclient_free(&client, MINE), made ? RM_OK : RM_ERR_OBJECT_NOT_FOUND);
    CHECK_EQUAL(book(&client, 0).gpu_used, 0);
    attack_check_room(&client);
}

/* So many bytes of each before the end of the second page. */
static void check_place(char *pages, size_t alloc_bytes, size_t params_bytes, int expected)
{
    char *end = pages + 2 * LENGTH, *other = three_pages(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    char copy[sizeof(struct rm_alloc)], params[sizeof(struct rm_memory_params)];
    char *alloc_at = end - alloc_bytes, *params_at = other + 2 * LENGTH - params_bytes;

    for (int indirect = 0; indirect < 2; indirect++) {
        put_alloc(copy, params_at);
        put_params(params);
        memcpy(alloc_at, copy, alloc_bytes < sizeof(copy) ? alloc_bytes : sizeof(copy));
        memcpy(params_at, params, params_bytes < sizeof(params) ? params_bytes : sizeof(params));
        CHECK_EQUAL(call(alloc_at, indirect), expected);
        if (expected == RM_OK) {
            memcpy(params, params_at, sizeof(params));
            CHECK_EQUAL(((struct rm_memory_params *)params)->limit, SMALL - 1);
        }
        check_made(expected == RM_OK);
    }
    munmap(other, 2 * LENGTH);
}

static void check_places(char *pages)
{
    const size_t alloc = sizeof(struct rm_alloc), params = sizeof(struct rm_memory_params);

    check_place(pages, alloc, params, RM_OK);            /* the last bytes there are */
    check_place(pages, LENGTH + 20, LENGTH + 20, RM_OK); /* across the two pages */
    check_place(pages, LENGTH + 1, LENGTH + 127, RM_OK);
    check_place(pages, 1500, 1500, RM_OK);
    check_place(pages, alloc - 1, params, -EFAULT);
    check_place(pages, 1, params, -EFAULT);
    check_place(pages, alloc, params - 1, RM_ERR_INVALID_ADDRESS);
    check_place(pages, alloc, 1, RM_ERR_INVALID_ADDRESS);
}

/* The driver finds out when it has done its work; so does the guard. */
static void check_read_only(void)
{
    char *arg = three_pages(MAP_PRIVATE | MAP_ANONYMOUS, -1),
         *params = three_pages(MAP_PRIVATE | MAP_ANONYMOUS, -1);

    for (int indirect = 0; indirect < 2; indirect++) {
        put_params(params);
        put_alloc(arg, params);
        mprotect(arg, LENGTH, PROT_READ);
        CHECK_EQUAL(call(arg, indirect), -EFAULT);
        check_made(true);
        mprotect(arg, LENGTH, PROT_READ | PROT_WRITE);
        mprotect(params, LENGTH, PROT_READ);
        put_alloc(arg, params);
        CHECK(call(arg, indirect) != 0xbad);
        check_made(true);
        mprotect(params, LENGTH, PROT_NONE);
        put_alloc(arg, params);
        CHECK_EQUAL(call(arg, indirect), RM_ERR_INVALID_ADDRESS);
        check_made(false);
        mprotect(arg, LENGTH, PROT_NONE);
        CHECK_EQUAL(call(arg, indirect), -EFAULT);
        check_made(false);
        mprotect(arg, LENGTH, PROT_READ | PROT_WRITE);
        mprotect(params, LENGTH, PROT_READ | PROT_WRITE);
    }
    munmap(arg, 2 * LENGTH);
    munmap(params, 2 * LENGTH);
}

/* Shared with nobody who minds; then the file gets shorter than what is mapped of it. */
static void check_file(void)
{
    int fd = memfd_create("arguments", MFD_CLOEXEC);
    char *pages, *params = three_pages(MAP_PRIVATE | MAP_ANONYMOUS, -1);

    CHECK(fd >= 0);
    CHECK_EQUAL(ftruncate(fd, (off_t)(PAGES * LENGTH)), 0);
    pages = three_pages(MAP_SHARED, fd);
    check_places(pages);
    put_params(params);
    put_alloc(pages + LENGTH, params);
    put_params(pages + LENGTH + 1000);
    CHECK_EQUAL(ftruncate(fd, (off_t)LENGTH), 0);
    CHECK_EQUAL(call(pages + LENGTH, false), -EFAULT);
    check_made(false);
    put_alloc(params + 1000, pages + LENGTH + 1000);
    CHECK_EQUAL(call(params + 1000, false), RM_ERR_INVALID_ADDRESS);
    check_made(false);
    munmap(pages, 2 * LENGTH);
    munmap(params, 2 * LENGTH);
    close(fd);
}

/* Parts of the arguments themselves: they overlap, or are the structures by which they are
 * passed. */
static void check_overlap(void)
{
    static char buffer[512] __attribute__((aligned(64)));

    memset(buffer, 0, sizeof(buffer));
    put_params(buffer + 8);
    put_alloc(buffer,
              buffer + 8); /* the size is at 72 of the whole, beyond what the other one has */
    CHECK(call(buffer, false) != -EINTR);
    rmclient_free(&client, MINE);
    rmclient_free(&client, client.client + 1);
    CHECK_EQUAL(book(&client, 0).gpu_used, 0);
    attack_check_room(&client);
}

struct pull {
    char *page;
    atomic_bool over;
};

/* Now it is there, now it is not, now it is but for reading. */
static void *pull(void *arg)
{
    struct pull *pulled = arg;

    while (!atomic_load_explicit(&pulled->over, memory_order_relaxed)) {
        munmap(pulled->page, LENGTH);
        mmap(pulled->page, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
             -1, 0);
        mprotect(pulled->page, LENGTH, PROT_READ);
        mprotect(pulled->page, LENGTH, PROT_READ | PROT_WRITE);
    }
    return NULL;
}

/* Into memory that may not be there. */
static void poke(char *at, const void *from, size_t bytes)
{
    struct iovec local = {(void *)(uintptr_t)from, bytes}, remote = {at, bytes};

    if (process_vm_writev(getpid(), &local, 1, &remote, 1, 0) < 0)
        CHECK(errno == EFAULT);
}

/* The structure begins on a page that stays, and ends on one that does not; the handle is on the
 * former. */
static void check_pulled(uint64_t tries, bool nested)
{
    char *fixed = three_pages(MAP_PRIVATE | MAP_ANONYMOUS, -1),
         *pages = three_pages(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    struct pull pulled = {.page = pages + LENGTH};
    uint64_t made = 0, failed = 0;
    pthread_t thread;

    CHECK_EQUAL(pthread_create(&thread, NULL, pull, &pulled), 0);
    for (uint64_t i = 0; i < tries || ((made == 0 || failed == 0) && i < tries * 100); i++) {
        char *params = nested ? pages + LENGTH - 64
                              : fixed + 1024; /* the size is the first on the second page */
        char *arg = nested ? fixed : pages + LENGTH - 24;
        struct rm_alloc alloc = {.root = client.client,
                                 .parent = client.device,
                                 .handle = MINE,
                                 .class_id = RM_CLASS_MEMORY_LOCAL_USER,
                                 .params = (uintptr_t)params};
        char wished[sizeof(struct rm_memory_params)];
        int rc;

        memcpy(arg, &alloc, nested ? sizeof(alloc) : 24);
        put_params(wished);
        memcpy(params, wished, 64);
        poke(params + 64, wished + 64,
             sizeof(wished) - 64); /* a new page has zeroes, and no size is none */
        rc = rmclient_call(client.ctl, RM_ESC_ALLOC, sizeof(alloc), arg);
        CHECK(rc == 0 || rc == -EFAULT);
        if (book(&client, 0).gpu_used) {
            made++;
            CHECK_EQUAL(book(&client, 0).gpu_used, SMALL);
            CHECK_EQUAL(rmclient_free(&client, MINE), 0);
        } else {
            failed++;
        }
    }
    atomic_store(&pulled.over, true);
    pthread_join(thread, NULL);
    fprintf(stderr, "pulled away: made %llu, failed %llu\n", (unsigned long long)made,
            (unsigned long long)failed);
    CHECK(made && failed);
    CHECK_EQUAL(book(&client, 0).gpu_used, 0);
    attack_check_room(&client);
}

int main(int argc, char **argv)
{
    uint64_t tries = attack_number(argc, argv, 1, 2000);

    attack_open(&client);
    check_places(three_pages(MAP_PRIVATE | MAP_ANONYMOUS, -1));
    check_read_only();
    check_file();
    check_overlap();
    check_pulled(tries, false);
    check_pulled(tries, true);
    rmclient_close(&client);
    return 0;
}
