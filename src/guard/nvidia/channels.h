/*
 * The channels of an instance, through which its programs give work to cards, and switching them
 * off and on.
 *
 * Switched through a duplicate of the file under which they were made, since the driver asks for
 * that and nothing else. The table is in memory that the keeper shares, as is the table of
 * descriptors: when the supervisor dies, the keeper switches on what is off (channels_rescue()).
 *
 * Thread-safe, by a lock of its own, which is held while the driver works. A program's processes
 * are looked after by the caller: who is gone is to be taken out at once, for the duplicate keeps
 * alive what the driver has for it.
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
    int fd; /* an open control device of the client's, of which a duplicate is kept */
    uint32_t client, subdevice, group, channel; /* objects of the client's; group: 0: it has none */
    unsigned vdev;                              /* the card's */
};

/* From now on it is switched as the others of the card are, and is as they are. -errno: there is no
 * room, or it cannot be switched: it is not taken. */
int channels_add(struct channels *channels, const struct channels_new_one *one);

/*
 * A group or a channel of the client's is to be scheduled (or no more), by a call with so many
 * bytes of `how`. True: it is off, and will be scheduled once it is switched on: the call is not to
 * be made. Under channels_lock(), which is held until it was made.
 */
bool channels_postpone(struct channels *channels, uint32_t client, uint32_t object,
                       const struct rm_schedule *how, uint32_t bytes);
void channels_lock(struct channels *channels);
void channels_unlock(struct channels *channels);

/* Whether a subdevice is what channels are switched by, and puts another in its place. */
bool channels_use(struct channels *channels, uint32_t client, uint32_t subdevice);
void channels_use_other(struct channels *channels, uint32_t client, uint32_t subdevice,
                        uint32_t other);

/* Nobody is seen to have the client's file, of which no duplicate must be kept then: its channels
 * are switched off, and stay so until it is found again. */
void channels_park(struct channels *channels, uint32_t client);
void channels_unpark(struct channels *channels, uint32_t client, int fd);

void channels_remove(struct channels *channels, uint32_t client, uint32_t channel);
void channels_remove_client(struct channels *channels, uint32_t client);

/* Switches all of a card. What is ENDING goes on until its time slice ends, if somebody else has
 * work, or its kernels do. -errno: some of them could not be switched (-ENOENT never: a channel
 * that is gone is forgotten). */
int channels_set(struct channels *channels, unsigned vdev, enum share_state to);

/*
 * What a card's work looks like from outside, by how often contexts were put on the engine for
 * kernels and taken off it (probe.c). `runs`: which part of the engine it has at this moment, 0 to
 * 1; `worked`: whether it has run, or runs, since the last probe. With `stop` a context that is
 * there is taken off the engine to see whether it is at work, which costs a program that works a
 * third of a millisecond; without, one that is there is said to have worked, and `runs` means
 * nothing then. Takes 0.2 ms for each group that does not work, 0.8 for one that does. -ENOTSUP:
 * nothing can be said.
 */
int channels_probe(struct channels *channels, unsigned vdev, bool stop,
                   struct share_probe *ret_probe);

/* The keeper's, once nobody else uses the table: switches on whatever may be off. */
void channels_rescue(void *channels);

#endif
