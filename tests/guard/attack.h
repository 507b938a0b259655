/*
 * Programs that attack the guard from within (attack.sh runs them): what they share.
 *
 * They take the fake driver's book as the truth. With none of them does anything else use the GPUs.
 */
#ifndef VGPU_TESTS_ATTACK_H
#define VGPU_TESTS_ATTACK_H

#include "selfcheck.h"

#define KIB     (1ULL << 10)
#define GIB     (1ULL << 30)
#define PAGE    65536ULL /* the least that the driver gives */
#define ATTR_4K (RM_MEMORY_PAGE_4K << 23)

/* Of the instance, in bytes. */
uint64_t attack_quota(void);

/* A number from the command line, or another where there is none. K, M and G are known. */
uint64_t attack_number(int argc, char **argv, int index, uint64_t otherwise);

/* A client of GPU 0. */
void attack_open(struct rmclient *ret_client);

/* fork(); the child does not outlive the thread that has made it. */
int attack_fork(void);

/* Memory in pages of 64 KiB whatever its size; the status, or -errno. */
int attack_alloc(struct rmclient *client, uint64_t bytes, uint32_t *handle);
uint32_t attack_must_alloc(struct rmclient *client, uint64_t bytes);
/* The same, once there is room: what programs let go of without a call is found by looking, now and
 * then. */
uint32_t attack_await_alloc(struct rmclient *client, uint64_t bytes);
void attack_must_free(struct rmclient *client, uint32_t handle);

/* Room for exactly what the quota leaves beside what the book says is used, not a page more. Uses
 * it and frees it. */
void attack_check_room(struct rmclient *client);

/* The program works without a break, under a cap of 10 percent: it gets no more of the card than
 * that with something to spare, by the driver's clock, over three seconds of it. */
void attack_check_capped(struct rmclient *client);

/* Sends a descriptor over a Unix socket, and takes one. */
void attack_send_fd(int socket, int fd);
int attack_receive_fd(int socket);

/* How many calls of a kind the book has: " free ", " malformed " and the like. */
uint64_t attack_calls(const char *name);

/* Waits until the book says so. */
void attack_await_used(struct rmclient *client, uint64_t bytes);

/* Gets memory that is not charged, while the quota is used up: by changing a call for a client,
 * which continues in the caller. (attack_around.c) */
void attack_around(struct rmclient *client, uint64_t bytes);

/* A generator of its own for each use: the same numbers in each run. */
uint32_t attack_random(uint64_t *state);

#endif
