/*
 * The channels of an instance, through which its programs give work to cards, and switching them off and on.
 *
 * Switched through a duplicate of the file under which they were made, since the driver asks for that and nothing else.
 * The table is in memory that the keeper shares, as is the table of descriptors: when the supervisor dies, the keeper
 * switches on what is off (channels_rescue()).
 *
 * Thread-safe, by a lock of its own, which is held while the driver works. A program's processes are looked after by
 * the caller: who is gone is to be taken out at once, for the duplicate keeps alive what the driver has for it.
 */
#ifndef VGPU_GUARD_CHANNELS_H
#define VGPU_GUARD_CHANNELS_H

#include "guard/share.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct channels;

int channels_new(struct channels **ret_channels); /* -ENOMEM */
void channels_free(struct channels *channels);

/* A channel that is about to be made by the thread `maker`. */
struct channels_new_one {
    int fd; /* an open control device of the client's, of which a duplicate is kept */
    uint32_t client, subdevice, group, channel; /* objects of the client's; group: 0: it has none */
    unsigned slice;                             /* the card's */
    pid_t maker;
};

/* It is on, and stays so until it is scheduled. -ENOSPC: no room, or too many that are not there yet; -EMFILE. */
int channels_add(struct channels *channels, const struct channels_new_one *one);

/* A group or a channel was scheduled: its channels are switched as the others are from now on. */
void channels_scheduled(struct channels *channels, uint32_t client, uint32_t object);

void channels_remove(struct channels *channels, uint32_t client, uint32_t channel);
void channels_remove_client(struct channels *channels, uint32_t client);

/* Switches all of a card. What is ENDING goes on until its time slice ends, if somebody else has work, or its kernels
 * do. -errno: some of them could not be switched (-ENOENT never: a channel that is gone is forgotten). */
int channels_set(struct channels *channels, unsigned slice, enum share_state to);

/* A thread is in no call any more: a channel that its last one was to make is there by now, or comes never. */
void channels_call_over(struct channels *channels, pid_t tid);

/*
 * A channel is added when its program asks for it, and may not be there when the others are switched. Switches those of
 * a card that are late as the others are. True: some are still not there; call again in a millisecond.
 */
bool channels_settle(struct channels *channels, unsigned slice);

/*
 * What a card's work looks like from outside, by how often contexts were put on the engine for kernels and taken off it
 * (looks.c). `runs`: which part of the engine it has at this moment, 0 to 1; `worked`: whether it has run, or runs,
 * since the last look. With `stop` a context that is there is taken off the engine to see whether it is at work, which
 * costs a program that works a third of a millisecond; without, one that is there is said to have worked, and `runs`
 * means nothing then. Takes 0.2 ms for each group that does not work, 0.8 for one that does. -ENOTSUP: nothing can be
 * said.
 */
int channels_look(struct channels *channels, unsigned slice, bool stop, struct share_look *ret_look);

/* The keeper's, once nobody else uses the table: switches on whatever may be off. */
void channels_rescue(struct channels *channels);

#endif
