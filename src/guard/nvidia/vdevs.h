/* The devices that programs of the instance use: which vdev each is, and its share. All under
 * notify->lock unless it says otherwise. */
#ifndef VGPU_GUARD_VDEVS_H
#define VGPU_GUARD_VDEVS_H

#include "guard/nvidia/nvidia.h"

/* The vdev of the device that an object of a client is on. -ENODEV: not the instance's, or it
 * cannot be told. */
int vdevs_find(struct nvidia *nvidia, const struct guard_file *file, uint32_t client,
               uint32_t object, unsigned *ret_vdev);
int vdevs_uuid(int fd, uint32_t client, uint32_t subdevice, uint8_t ret_uuid[16]); /* -ENODEV */
/* A subdevice of the client's device, by which channels can be switched. -ENODEV. */
int vdevs_subdevice(struct nvidia *nvidia, const struct guard_file *file, uint32_t client,
                    uint32_t device, uint32_t *ret_subdevice);
/* An object is about to be freed: channels that are switched by it are switched by the guard's own
 * subdevice from now on. -ENODEV: there can be none. */
int vdevs_let_go(struct nvidia *nvidia, const struct guard_file *file, uint32_t client,
                 uint32_t subdevice);
/* Whether the object is such a subdevice. */
bool vdevs_own(const struct nvidia *nvidia, uint32_t client, uint32_t object);
void vdevs_forget_device(struct nvidia *nvidia, uint32_t client, uint32_t device);
/* A channel was made: from now on the device is shared. -errno: there is no thread to keep the
 * share, which the program can bring about; then the channel must not exist. */
int vdevs_begin_share(struct nvidia *nvidia, unsigned vdev);
void vdevs_done(struct nvidia *nvidia); /* without the lock */

/* Switches all channels off or on, without the lock. 0; -EIO: some could not be switched, and
 * nothing is paused; -EOPNOTSUPP: the guard does not switch channels. `nvidia`: a struct nvidia. */
int vdevs_pause(void *nvidia, bool pause);
/* Switches off what vdevs_pause() could not switch off at once, without the lock. */
void vdevs_pause_again(struct nvidia *nvidia);

#endif
