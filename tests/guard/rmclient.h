/*
 * A client of NVIDIA's driver, or of the fake one (fake/fakerm.c), without any library of NVIDIA's:
 * what libcuda does below its API, call by call.
 *
 * Functions return 0, the driver's status (> 0), or -errno where the system call itself failed.
 * What is made is a handle; where `*handle` is given, 0 lets the driver choose one. With
 * rmclient_ioctl() a test can send what it likes.
 */
#ifndef VGPU_TESTS_RMCLIENT_H
#define VGPU_TESTS_RMCLIENT_H

#include "fakerm_abi.h"

#include <stdbool.h>
#include <stddef.h>

struct rmclient {
    int ctl, uvm; /* uvm: -1 until the first call that needs it */
    int card;     /* nvidia0 ...: the driver makes devices for who has it open */
    uint32_t client, device, subdevice;
    unsigned gpu;
    uint8_t uuid[16];
    uint64_t next_address; /* of what rmclient_malloc() gives out */
    char dir[256];
};

/* Opens nvidiactl in `dir` (NULL: $FAKERM_DIR, /dev) and makes a client, device and subdevice for
 * one GPU. */
int rmclient_open(const char *dir, unsigned gpu, struct rmclient *ret_client);
/* The same on a nvidiactl that is open already; close() that yourself, and `card`. */
int rmclient_attach(const char *dir, int ctl, unsigned gpu, struct rmclient *ret_client);
/* Closes the files; nothing is freed but by that. */
void rmclient_close(struct rmclient *client);
int rmclient_open_file(const char *dir, const char *name);

/* As it is: 0 or -errno. By the system call, `cmd` in full 64 bits. */
int rmclient_ioctl(int fd, unsigned long cmd, void *arg);
/* A call by number and size; the same by way of XFER. 0 or -errno. */
int rmclient_call(int fd, uint32_t nr, uint32_t size, void *arg);
int rmclient_call_xfer(int fd, uint32_t nr, uint32_t size, void *arg);

/* Objects */

int rmclient_root(int ctl, uint32_t *client);
int rmclient_alloc(struct rmclient *client, uint32_t parent, uint32_t *handle, uint32_t class_id,
                   void *params, uint32_t params_bytes);
int rmclient_alloc_short(struct rmclient *client, uint32_t parent, uint32_t *handle,
                         uint32_t class_id, void *params, uint32_t params_bytes);
int rmclient_alloc_xfer(struct rmclient *client, uint32_t parent, uint32_t *handle,
                        uint32_t class_id, void *params, uint32_t params_bytes);
int rmclient_free(struct rmclient *client, uint32_t handle);
int rmclient_free_root(struct rmclient *client);
/* Lets another client, of whatever process, have duplicates of what is this one's. */
int rmclient_share(struct rmclient *client, uint32_t target);
int rmclient_dup(struct rmclient *client, uint32_t source_client, uint32_t source,
                 uint32_t *handle);
int rmclient_control(struct rmclient *client, uint32_t object, uint32_t cmd, void *params,
                     uint32_t params_bytes);
/* As libcuda makes one: by way of an open nvidiaN. */
int rmclient_event(struct rmclient *client, int card_fd, uint32_t parent, uint32_t *handle);

/* Memory. `bytes` becomes what was really allocated. */

int rmclient_memory(struct rmclient *client, uint64_t *bytes, uint32_t *handle);
int rmclient_heap_alloc(struct rmclient *client, uint32_t function, uint64_t *bytes,
                        uint32_t *handle);
int rmclient_heap_free(struct rmclient *client, uint32_t handle);
int rmclient_heap_info(struct rmclient *client, uint64_t *ret_total, uint64_t *ret_free);
int rmclient_fb_info(struct rmclient *client, uint64_t *ret_size, uint64_t *ret_free);
int rmclient_fb_info_list(struct rmclient *client, uint64_t *ret_size,
                          uint64_t *ret_free); /* the older control */
/* As NVML asks the driver: of a process, on the client's GPU. */
int rmclient_pid_bytes(struct rmclient *client, uint32_t pid, uint64_t *ret_bytes);

/* What files hold: `fd` is another open nvidiactl. Of several objects, from place `first` on; 0:
 * none. */

int rmclient_export(struct rmclient *client, int fd, uint32_t memory);
int rmclient_import(struct rmclient *client, int fd, uint32_t *handle);
/* `room`: how many places a file that holds nothing yet gets. */
int rmclient_export_many(struct rmclient *client, int fd, unsigned room, unsigned first,
                         const uint32_t *memory, unsigned count);
int rmclient_import_many(struct rmclient *client, int fd, unsigned first, uint32_t *handles,
                         unsigned count);
/* `bytes`: what the branch has. *fd: -1: a new one; `card`: an open nvidiaN. */
int rmclient_dmabuf(struct rmclient *client, int card, unsigned bytes, unsigned total,
                    unsigned first, const uint32_t *memory, unsigned count, int *fd);

/* UVM */

int rmclient_uvm_open(struct rmclient *client);
int rmclient_uvm_range(struct rmclient *client, uint64_t base, uint64_t length);
int rmclient_uvm_map(struct rmclient *client, uint64_t base, uint64_t length, uint64_t offset,
                     uint32_t memory);
int rmclient_uvm_unmap(struct rmclient *client, uint64_t base, uint64_t length);
int rmclient_uvm_free(struct rmclient *client, uint64_t base, uint64_t length);

/* As cuMemAlloc and cuMemFree do: memory, a range, and the one mapped in the other. */
struct rmclient_block {
    uint64_t address, bytes;
    uint32_t memory;
};

int rmclient_malloc(struct rmclient *client, uint64_t bytes, struct rmclient_block *ret_block);
int rmclient_mfree(struct rmclient *client, const struct rmclient_block *block);

/* Channels */

#define RMCLIENT_CHANNEL_CLASS 0xc86fu

/* They do not run before they are scheduled: the group once for all of its channels, or each. */
int rmclient_group(struct rmclient *client, uint32_t *group);
int rmclient_channel(struct rmclient *client, uint32_t parent, uint32_t *channel);
/* A group of `count` channels that may run: for kernels; for copies. */
int rmclient_compute(struct rmclient *client, unsigned count, uint32_t *ret_group,
                     uint32_t *ret_channels);
int rmclient_copies(struct rmclient *client, unsigned count, uint32_t *ret_group,
                    uint32_t *ret_channels);
int rmclient_schedule(struct rmclient *client, uint32_t group, bool on);
int rmclient_schedule_channel(struct rmclient *client, uint32_t channel, bool on);
int rmclient_set_slice(struct rmclient *client, uint32_t group, uint64_t slice_us);
int rmclient_get_slice(struct rmclient *client, uint32_t group, uint64_t *ret_slice_us);
/* `clients` NULL: all this client's own. */
int rmclient_disable(struct rmclient *client, const uint32_t *clients, const uint32_t *channels,
                     unsigned count, bool disable);
/* Disables them, but what runs goes on until its kernel ends, or its time slice if somebody else
 * has work. */
int rmclient_end(struct rmclient *client, const uint32_t *clients, const uint32_t *channels,
                 unsigned count);
int rmclient_preempt(struct rmclient *client, uint32_t group);
/* `object`: a group, or a channel of it. */
int rmclient_ctxsw(struct rmclient *client, uint32_t object, bool reset,
                   struct rm_ctxsw_stats *ret_stats);

/* Only of the fake driver: work, and its book */

int rmclient_submit(struct rmclient *client, uint32_t channel, uint64_t duration_ns,
                    uint64_t count);
int rmclient_wait(struct rmclient *client, uint32_t channel); /* 0: all of the client's */
int rmclient_run(struct rmclient *client, uint32_t channel, uint64_t duration_ns,
                 uint64_t count); /* both in one */
int rmclient_work(struct rmclient *client, uint32_t channel, struct fakerm_work *ret_work);
int rmclient_stats(struct rmclient *client, uint32_t pid, struct fakerm_stats *ret_stats);
int rmclient_reset(struct rmclient *client);

#endif
