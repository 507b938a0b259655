/*
 * The channels of an instance, through which its programs give work to GPUs, and switching them off
 * and on.
 *
 * They are switched through a duplicate of the file under which they were made: the driver asks for
 * that and nothing else. The table is in memory that the keeper shares, as is the table of
 * descriptors. When the supervisor dies, the keeper switches on what is off (channels_rescue()).
 *
 * Thread-safe by a lock of its own, which is held while the driver works. A duplicate keeps alive
 * what the driver has for a file, so the caller has to remove a client as soon as it is gone.
 */
#ifndef VGPU_GUARD_CHANNELS_H
#define VGPU_GUARD_CHANNELS_H

#include "guard/nvidia/abi.h"
#include "guard/sched/share.h"

#include <stdbool.h>
#include <stdint.h>

struct channels;

int channels_new(struct channels **ret_channels); /* -ENOMEM */
void channels_free(struct channels *channels);

/* A channel that was made. */
struct channels_new_one {
    int fd; /* an open control device of the client's; a duplicate is kept */
    uint32_t client, subdevice, group, channel; /* objects of the client's; group 0: it has none */
    unsigned vdev;
};

/* From now on it is switched with the others of the device, and is as they are. -errno: there is no
 * room, or it cannot be switched; then it is not in the table. */
int channels_add(struct channels *channels, const struct channels_new_one *one);

/*
 * A call with so many bytes of `how` asks to schedule a group or a channel of the client's, or to
 * stop it. True: it is off, and will be scheduled once it is switched on, so the call must not be
 * made. Between channels_lock() and channels_unlock(), with the call.
 */
bool channels_postpone(struct channels *channels, uint32_t client, uint32_t object,
                       const struct rm_schedule *how, uint32_t bytes);
void channels_lock(struct channels *channels);
void channels_unlock(struct channels *channels);

/* Whether channels are switched by a subdevice; and puts another in its place. */
bool channels_use(struct channels *channels, uint32_t client, uint32_t subdevice);
void channels_use_other(struct channels *channels, uint32_t client, uint32_t subdevice,
                        uint32_t other);

/* No process is seen to have the client's file, and no duplicate of it may be kept: its channels
 * are switched off, and stay off until the file is found again. */
void channels_park(struct channels *channels, uint32_t client);
void channels_unpark(struct channels *channels, uint32_t client, int fd);

void channels_remove(struct channels *channels, uint32_t client, uint32_t channel);
void channels_remove_client(struct channels *channels, uint32_t client);

/* Switches all channels of a vdev. With SHARE_ENDING, kernels run on until they end, or until their
 * time slice does if others have work. -errno: some could not be switched. A channel that is gone
 * is forgotten, and is no error. */
int channels_set(struct channels *channels, unsigned vdev, enum share_switch to);

/*
 * Whether the instance's work runs, seen from outside: how often contexts were put on the engine
 * for kernels and taken off it (probe.c). `runs`: the part of the engine that it has at this
 * moment, 0 to 1. `worked`: it has run since the last probe, or runs. With `stop` a context on the
 * engine is taken off it, to see whether it works; that costs a program that works a third of a
 * millisecond. Without, a context on the engine counts as work, and `runs` means nothing. Takes 0.2
 * ms for each group that does not work, 0.8 ms for one that does. -ENOTSUP: the driver does not
 * say.
 */
int channels_probe(struct channels *channels, unsigned vdev, bool stop,
                   struct share_probe *ret_probe);

/* For the keeper, once no other process uses the table: switches on what may be off. */
void channels_rescue(void *channels);

#endif
