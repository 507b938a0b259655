#include "hook/memory/image.h"

#include "base/cleanup.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define MACHINE_CUDA    190
#define WRAPPER_MAGIC   0x466243b1u /* a program's reference to its fat binary */
#define FAT_MAGIC       0xba55ed50u
#define FAT_KIND_CUBIN  2
#define FAT_COMPRESSED  0x2000u
#define FAT_ENTRIES_MAX 256
#define NEED_MAX        (1ULL << 50)

struct fat_wrapper {
    uint32_t magic;
    uint32_t version;
    const void *data;
    const void *file_name;
};

struct fat_header {
    uint32_t magic;
    uint16_t version;
    uint16_t header_bytes;
    uint64_t bytes; /* of all that follows the header */
};

struct fat_entry {
    uint16_t kind;
    uint16_t version;
    uint32_t header_bytes;
    uint64_t bytes; /* of what follows this header */
    uint32_t compressed_bytes;
    uint32_t reserved;
    uint16_t minor, major;
    uint32_t arch;
    uint32_t name_offset, name_bytes;
    uint64_t flags;
};

static uint32_t magic_of(const void *image)
{
    const unsigned char *bytes = image;
    uint32_t magic;

    /* Byte by byte: PTX text may be shorter than a word. */
    for (unsigned i = 0; i < 3; i++)
        if (bytes[i] == '\0')
            return 0;
    memcpy(&magic, image, sizeof(magic));
    return magic;
}

/* `limit_bytes`: how much there is; 0: unknown, and the driver trusts the header, too. */
static uint64_t cubin_bytes(const void *image, uint64_t limit_bytes)
{
    Elf64_Ehdr header;
    uint64_t need = 0;

    if (limit_bytes > 0 && limit_bytes < sizeof(header))
        return 0;
    memcpy(&header, image, sizeof(header));
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != MACHINE_CUDA ||
        header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shoff == 0)
        return 0;
    if (limit_bytes > 0 && (header.e_shoff > limit_bytes ||
                            header.e_shnum * sizeof(Elf64_Shdr) > limit_bytes - header.e_shoff))
        return 0;
    for (unsigned i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section;

        memcpy(&section, (const char *)image + header.e_shoff + i * sizeof(section),
               sizeof(section));
        if (section.sh_flags & SHF_ALLOC && section.sh_size < NEED_MAX && need < NEED_MAX)
            need += section.sh_size;
    }
    return need;
}

static uint64_t fat_bytes(const void *image, uint64_t limit_bytes)
{
    const char *at = image, *end;
    struct fat_header header;
    uint64_t need = 0;

    if (limit_bytes > 0 && limit_bytes < sizeof(header))
        return 0;
    memcpy(&header, image, sizeof(header));
    if (header.header_bytes < sizeof(header) || header.bytes > NEED_MAX)
        return 0;
    if (limit_bytes > 0 && header.header_bytes + header.bytes > limit_bytes)
        return 0;
    at += header.header_bytes;
    end = at + header.bytes;
    for (unsigned i = 0; i < FAT_ENTRIES_MAX && (uint64_t)(end - at) >= sizeof(struct fat_entry);
         i++) {
        struct fat_entry entry;
        uint64_t room = (uint64_t)(end - at);

        memcpy(&entry, at, sizeof(entry));
        if (entry.header_bytes < sizeof(entry) || entry.header_bytes > room ||
            entry.bytes > room - entry.header_bytes)
            break;
        if (entry.kind == FAT_KIND_CUBIN && !(entry.flags & FAT_COMPRESSED) &&
            entry.bytes > sizeof(Elf64_Ehdr) &&
            memcmp(at + entry.header_bytes, ELFMAG, SELFMAG) == 0) {
            uint64_t bytes = cubin_bytes(at + entry.header_bytes, entry.bytes);

            need = bytes > need ? bytes : need;
        }
        at += entry.header_bytes + entry.bytes;
    }
    return need;
}

static uint64_t known_bytes(const void *image, uint64_t limit_bytes)
{
    uint32_t magic = magic_of(image), elf;

    memcpy(&elf, ELFMAG, sizeof(elf));
    if (magic == elf)
        return cubin_bytes(image, limit_bytes);
    return magic == FAT_MAGIC ? fat_bytes(image, limit_bytes) : 0;
}

uint64_t image_device_bytes(const void *image)
{
    struct fat_wrapper wrapper;

    if (!image)
        return 0;
    if (magic_of(image) != WRAPPER_MAGIC)
        return known_bytes(image, 0);
    memcpy(&wrapper, image, sizeof(wrapper));
    return wrapper.data ? known_bytes(wrapper.data, 0) : 0;
}

uint64_t image_file_device_bytes(const char *path)
{
    KEEP_ERRNO;
    CLEANUP_CLOSE int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
    off_t bytes = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
    uint64_t need;
    void *image;

    if (bytes < (off_t)sizeof(uint32_t))
        return 0;
    image = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (image == MAP_FAILED)
        return 0;
    need = known_bytes(image, (uint64_t)bytes);
    munmap(image, (size_t)bytes);
    return need;
}
