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

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct channels;

int channels_new(struct channels **ret_channels); /* -ENOMEM */
void channels_free(struct channels *channels);

/*
 * A channel of `client`, on the card `slice`, whose device and subdevice are objects of that client. `fd`: an open
 * control device of the client's, of which a duplicate is kept. Channels are on at first. `maker`: the thread that is
 * about to make it. -ENOSPC: no room, or too many that are not there yet; -EMFILE.
 */
int channels_add(struct channels *channels, int fd, uint32_t client, unsigned slice, uint32_t device,
                 uint32_t subdevice, uint32_t channel, pid_t maker);
void channels_remove(struct channels *channels, uint32_t client, uint32_t channel);
void channels_remove_client(struct channels *channels, uint32_t client);

/* Switches all of a card. -errno: some of them could not be switched (-ENOENT never: a channel that is gone is
 * forgotten). */
int channels_set(struct channels *channels, unsigned slice, bool on);

/* A thread is in no call any more: a channel that its last one was to make is there by now, or comes never. */
void channels_call_over(struct channels *channels, pid_t tid);

/*
 * A channel is added when its program asks for it, and may not be there when the others are switched. Switches those of
 * a card that are late as the others are. True: some are still not there; call again in a millisecond.
 */
bool channels_settle(struct channels *channels, unsigned slice);

/* 1: one of them has work; 0: none has; -ENOTSUP: the driver does not say. */
int channels_busy(struct channels *channels, unsigned slice);

/* The keeper's, once nobody else uses the table: switches on whatever may be off. */
void channels_rescue(struct channels *channels);

#endif
