/*
 * Shared by the programs that attack the guard from inside a guarded run. attack.sh runs them.
 *
 * The fake driver's book is the truth. Each program has the fake GPUs to itself.
 */
#ifndef VGPU_TESTS_ATTACK_H
#define VGPU_TESTS_ATTACK_H

#include "selfcheck.h"

#define KIB     (1ULL << 10)
#define GIB     (1ULL << 30)
#define PAGE    65536ULL /* the least that the driver gives */
#define ATTR_4K (RM_MEMORY_PAGE_4K << 23)

/* The instance's quota in bytes. */
uint64_t attack_quota(void);

/* argv[index] as a number, with K, M or G behind it; `otherwise` if there is no such argument. */
uint64_t attack_number(int argc, char **argv, int index, uint64_t otherwise);

/* Makes a client of the driver with GPU 0. */
void attack_open(struct rmclient *ret_client);

/* fork(); the kernel kills the child when the calling thread ends. */
int attack_fork(void);

/* Allocates memory in pages of 64 KiB. Returns the driver's status, or -errno. */
int attack_alloc(struct rmclient *client, uint64_t bytes, uint32_t *handle);
uint32_t attack_must_alloc(struct rmclient *client, uint64_t bytes);
/* The same, and waits for room. The guard looks from time to time for memory that programs dropped
 * without a call. */
uint32_t attack_await_alloc(struct rmclient *client, uint64_t bytes);
void attack_must_free(struct rmclient *client, uint32_t handle);

/* Checks that exactly the rest of the quota can be allocated: the quota less what the book says is
 * used. Frees it again. */
void attack_check_room(struct rmclient *client);

/* For a program that works without a break under a cap of 10 percent. Checks its share of three
 * seconds of the driver's clock, with a margin. */
void attack_check_capped(struct rmclient *client);

/* Send a descriptor over a Unix socket, and receive one. */
void attack_send_fd(int socket, int fd);
int attack_receive_fd(int socket);

/* The book's count of one kind of calls, by its word there, such as " free ". */
uint64_t attack_calls(const char *name);

/* Waits until the book says that so many bytes are used. */
void attack_await_used(struct rmclient *client, uint64_t bytes);

/* Gets memory without a charge although the quota is used up. It changes the arguments of a call
 * that the guard lets continue (attack_around.c). */
void attack_around(struct rmclient *client, uint64_t bytes);

/* The next random number. A generator with the same start gives the same numbers in each run. */
uint32_t attack_random(uint64_t *state);

#endif
