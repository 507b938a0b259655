#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "region/internal.h"

#include <fcntl.h>
#include <sys/mman.h>

/* Reads all of it, or fails: the file may be cut short at any time. */
static int read_part(int fd, off_t base_offset, struct region_layout *layout, size_t from,
                     size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, (char *)layout + from + done, bytes - done,
                            base_offset + (off_t)(from + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? err_last() : -EPROTO;
        done += (size_t)got;
    }
    return 0;
}

/* Entries that were never used are not read, and stay zero. */
static int read_layout(int fd, off_t base_offset, struct region_layout *layout)
{
    size_t slots = offsetof(struct region_layout, slot),
           shares = offsetof(struct region_layout, shares_high);
    uint32_t high;
    int rc = read_part(fd, base_offset, layout, 0, slots);

    if (rc == 0 && !region_layout_valid(layout))
        rc = -EPROTO;
    if (rc == 0)
        rc = read_part(fd, base_offset, layout, slots,
                       region_slots_high(layout) * sizeof(layout->slot[0]));
    if (rc == 0)
        rc = read_part(fd, base_offset, layout, shares,
                       offsetof(struct region_layout, share) - shares);
    high = atomic_load(&layout->shares_high);
    if (rc == 0)
        rc = read_part(fd, base_offset, layout, offsetof(struct region_layout, share),
                       (high < REGION_SHARES ? high : REGION_SHARES) * sizeof(layout->share[0]));
    return rc;
}

int region_peek(const char *path, off_t base_offset, struct vgpu_region **ret_region)
{
    KEEP_ERRNO;
    struct vgpu_region *region = calloc(1, sizeof(*region));
    int fd, rc;

    if (!region)
        return -ENOMEM;
    rc = liveness_get(path, &region->liveness, &fd);
    if (rc < 0) {
        free(region);
        return rc;
    }
    region->copied = true;
    region->map_bytes = sizeof(*region->layout);
    region->map =
        mmap(NULL, region->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (region->map == MAP_FAILED) {
        region->map = NULL;
        rc = -ENOMEM;
    } else {
        region->layout = region->map;
        rc = read_layout(fd, base_offset, region->layout);
    }
    if (rc < 0) {
        region_close(region);
        return rc;
    }
    *ret_region = region;
    return 0;
}
