/*
 * Reads cubins and fat binaries. The layout of a fat binary is from the toolkit's
 * fatbinary_section.h and ZLUDA's cuda_types/src/dark_api.rs (https://github.com/vosen/ZLUDA). That
 * of a cubin's attributes is from https://github.com/VivekPanyam/cudaparsers (src/cubin.rs).
 */
#include "image.h"
#include "unpack.h"

#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRAPPER_MAGIC   0x466243b1u
#define FAT_MAGIC       0xba55ed50u
#define FAT_CUBIN       2
#define FAT_LZ4         0x2000u
#define FAT_ZSTD        0x8000u
#define MACHINE_CUDA    190
#define OTHER_KERNEL    0x10 /* in st_other */
#define OTHER_MANAGED   0x04
#define INFO_SIZED      0x04 /* the format of an attribute that is followed by its size */
#define INFO_PARAMETER  0x17
#define PARAMETER_BYTES 12
#define MOST_PARAMETERS 1024
#define UNITS           256 /* what variables are aligned to */

struct wrapper {
    uint32_t magic, version;
    const void *data;
    const void *const *linked; /* version 2: fat binaries, ended by a NULL */
};

struct fat_header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
};

struct fat_entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t compressed_bytes, unused[5];
    uint64_t flags;
    uint64_t reserved, plain_bytes; /* the second: of a compressed file */
};

/* Part of an image. `bytes` may be read; UINT64_MAX: the size is unknown. */
struct view {
    const unsigned char *from;
    uint64_t bytes;
};

static bool within(const struct view *view, uint64_t offset, uint64_t bytes)
{
    return offset <= view->bytes && bytes <= view->bytes - offset;
}

/* A cubin while it is read. */
struct cubin {
    struct view view;
    Elf64_Ehdr header;
    Elf64_Shdr names; /* of sections */
};

static bool section_of(const struct cubin *cubin, unsigned index, Elf64_Shdr *ret_section)
{
    uint64_t offset = cubin->header.e_shoff + (uint64_t)index * sizeof(*ret_section);

    if (index >= cubin->header.e_shnum || !within(&cubin->view, offset, sizeof(*ret_section)))
        return false;
    memcpy(ret_section, cubin->view.from + offset, sizeof(*ret_section));
    return ret_section->sh_type == SHT_NOBITS ||
           within(&cubin->view, ret_section->sh_offset, ret_section->sh_size);
}

/* A string in a string table; "": there is none. */
static const char *text_of(const struct cubin *cubin, const Elf64_Shdr *table, uint64_t offset)
{
    const char *from = (const char *)cubin->view.from + table->sh_offset;

    if (table->sh_type != SHT_STRTAB || offset >= table->sh_size ||
        !memchr(from + offset, 0, (size_t)(table->sh_size - offset)))
        return "";
    return from + offset;
}

static bool read_parameters(const struct cubin *cubin, const Elf64_Shdr *info,
                            struct sim_symbol *symbol)
{
    const unsigned char *from = cubin->view.from + info->sh_offset;
    uint16_t size, ordinal;
    uint32_t packed;

    symbol->parameters = calloc(MOST_PARAMETERS, sizeof(*symbol->parameters));
    for (uint64_t at = 0; symbol->parameters && at + 4 <= info->sh_size; at += 4) {
        if (from[at] != INFO_SIZED)
            continue;
        memcpy(&size, from + at + 2, sizeof(size));
        if (size > info->sh_size - at - 4)
            break;
        if (from[at + 1] == INFO_PARAMETER && size == PARAMETER_BYTES) {
            memcpy(&ordinal, from + at + 8, sizeof(ordinal));
            memcpy(&packed, from + at + 12, sizeof(packed));
            if (ordinal < MOST_PARAMETERS) {
                memcpy(&symbol->parameters[ordinal].offset, from + at + 10, sizeof(uint16_t));
                symbol->parameters[ordinal].bytes = (uint16_t)(packed >> 18);
                if (ordinal >= symbol->parameter_count)
                    symbol->parameter_count = ordinal + 1u;
            }
        }
        at += size;
    }
    return symbol->parameters;
}

/* The section ".nv.info.NAME" of a kernel. */
static bool read_kernel(const struct cubin *cubin, struct sim_symbol *symbol)
{
    static const char prefix[] = ".nv.info.";
    Elf64_Shdr section;

    for (unsigned index = 0; index < cubin->header.e_shnum; index++) {
        if (!section_of(cubin, index, &section))
            continue;
        const char *name = text_of(cubin, &cubin->names, section.sh_name);
        if (!strncmp(name, prefix, sizeof(prefix) - 1) &&
            !strcmp(name + sizeof(prefix) - 1, symbol->name))
            return read_parameters(cubin, &section, symbol);
    }
    return true;
}

static bool read_variable(const struct cubin *cubin, const Elf64_Sym *entry,
                          const Elf64_Shdr *section, struct sim_image *image,
                          struct sim_symbol *symbol)
{
    symbol->bytes = entry->st_size;
    if (symbol->kind == SYMBOL_VARIABLE) {
        symbol->offset = image->bytes;
        image->bytes += (symbol->bytes + UNITS - 1) / UNITS * UNITS;
    }
    if (section->sh_type == SHT_NOBITS || entry->st_value > section->sh_size ||
        entry->st_size > section->sh_size - entry->st_value)
        return true;
    symbol->initial = malloc((size_t)symbol->bytes);
    if (symbol->initial)
        memcpy(symbol->initial, cubin->view.from + section->sh_offset + entry->st_value,
               (size_t)symbol->bytes);
    return symbol->initial;
}

/* Adds the symbol to the image if a program can ask for it. */
static bool read_symbol(const struct cubin *cubin, const Elf64_Sym *entry, const char *name,
                        struct sim_image *image)
{
    struct sim_symbol *symbol = &image->symbols[image->count];
    bool kernel = ELF64_ST_TYPE(entry->st_info) == STT_FUNC && entry->st_other & OTHER_KERNEL;
    Elf64_Shdr section;

    if (!*name || !section_of(cubin, entry->st_shndx, &section))
        return true;
    if (!kernel && (ELF64_ST_TYPE(entry->st_info) != STT_OBJECT || !entry->st_size))
        return true;
    *symbol = (struct sim_symbol){.name = strdup(name)};
    if (!symbol->name)
        return false;
    image->count++;
    if (kernel)
        return read_kernel(cubin, symbol);
    symbol->kind = entry->st_other & OTHER_MANAGED ? SYMBOL_MANAGED : SYMBOL_VARIABLE;
    return read_variable(cubin, entry, &section, image, symbol);
}

static bool read_symbols(const struct cubin *cubin, const Elf64_Shdr *table,
                         struct sim_image *image)
{
    uint64_t count = table->sh_size / sizeof(Elf64_Sym);
    Elf64_Shdr names;
    Elf64_Sym entry;

    if (!section_of(cubin, table->sh_link, &names))
        return true;
    image->symbols = calloc((size_t)count + 1, sizeof(*image->symbols));
    for (uint64_t at = 0; image->symbols && at < count; at++) {
        memcpy(&entry, cubin->view.from + table->sh_offset + at * sizeof(entry), sizeof(entry));
        if (!read_symbol(cubin, &entry, text_of(cubin, &names, entry.st_name), image))
            return false;
    }
    return image->symbols;
}

static bool read_cubin(struct view view, struct sim_image **ret_image)
{
    struct cubin cubin = {.view = view};
    Elf64_Shdr section;

    if (!within(&view, 0, sizeof(cubin.header)))
        return true;
    memcpy(&cubin.header, view.from, sizeof(cubin.header));
    if (cubin.header.e_ident[EI_CLASS] != ELFCLASS64 || cubin.header.e_machine != MACHINE_CUDA ||
        cubin.header.e_shentsize != sizeof(section) ||
        !section_of(&cubin, cubin.header.e_shstrndx, &cubin.names))
        return true;
    for (unsigned index = 0; index < cubin.header.e_shnum; index++) {
        if (!section_of(&cubin, index, &section) || section.sh_type != SHT_SYMTAB)
            continue;
        *ret_image = calloc(1, sizeof(**ret_image));
        return *ret_image && read_symbols(&cubin, &section, *ret_image);
    }
    return true;
}

static bool read_file(const struct fat_entry *entry, struct view file, struct sim_image **ret_image)
{
    if (!(entry->flags & (FAT_LZ4 | FAT_ZSTD)))
        return read_cubin(file, ret_image);
    if (!within(&file, 0, entry->compressed_bytes))
        return true;
    void *plain = unpack(entry->flags & FAT_ZSTD ? PACKED_ZSTD : PACKED_LZ4, file.from,
                         entry->compressed_bytes, entry->plain_bytes);
    bool done = !plain || read_cubin((struct view){plain, entry->plain_bytes}, ret_image);
    free(plain);
    return done;
}

/* Reads the first cubin that it can: those of other architectures have the same symbols. */
static bool read_fat(struct view all, struct sim_image **ret_image)
{
    struct fat_header header;
    struct fat_entry entry;

    if (!within(&all, 0, sizeof(header)))
        return true;
    memcpy(&header, all.from, sizeof(header));
    if (!within(&all, header.header_bytes, header.bytes))
        return true;
    struct view view = {all.from + header.header_bytes, header.bytes};
    while (within(&view, 0, sizeof(entry))) {
        memcpy(&entry, view.from, sizeof(entry));
        if (entry.header_bytes < sizeof(entry) || !within(&view, entry.header_bytes, entry.bytes))
            return true;
        struct view file = {view.from + entry.header_bytes, entry.bytes};
        if (entry.kind == FAT_CUBIN && !read_file(&entry, file, ret_image))
            return false;
        if (*ret_image)
            return true;
        view.from = file.from + entry.bytes;
        view.bytes -= entry.header_bytes + entry.bytes;
    }
    return true;
}

/* Byte by byte, since PTX may be shorter; 0: none. */
static uint32_t magic_of(const unsigned char *from)
{
    uint32_t magic = 0;

    for (int at = 0; at < 4 && from[at]; at++)
        magic |= (uint32_t)from[at] << 8 * at;
    return magic;
}

static bool read_any(struct view view, struct sim_image **ret_image)
{
    static const char elf_magic[] = ELFMAG;
    uint32_t magic = magic_of(view.from);

    if (magic == FAT_MAGIC)
        return read_fat(view, ret_image);
    return magic == magic_of((const unsigned char *)elf_magic) ? read_cubin(view, ret_image) : true;
}

static bool read_parts(const void *image, struct sim_image **ret_image)
{
    struct wrapper wrapper;

    if (magic_of(image) != WRAPPER_MAGIC)
        return read_any((struct view){image, UINT64_MAX}, ret_image);
    memcpy(&wrapper, image, sizeof(wrapper));
    if (wrapper.version == 1)
        return !wrapper.data || read_any((struct view){wrapper.data, UINT64_MAX}, ret_image);
    for (const void *const *part = wrapper.linked; part && *part && !*ret_image; part++) {
        if (!read_any((struct view){*part, UINT64_MAX}, ret_image))
            return false;
    }
    return true;
}

static bool ended(bool done, struct sim_image **ret_image)
{
    if (!done) {
        image_free(*ret_image);
        *ret_image = NULL;
    }
    return done;
}

bool image_read(const void *image, struct sim_image **ret_image)
{
    *ret_image = NULL;
    return ended(read_parts(image, ret_image), ret_image);
}

bool image_read_file(const char *path, struct sim_image **ret_image)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat stat;
    bool done = true;

    *ret_image = NULL;
    if (fd < 0 || fstat(fd, &stat) || stat.st_size < (off_t)sizeof(struct fat_header)) {
        if (fd >= 0)
            close(fd);
        return true;
    }
    void *from = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (from == MAP_FAILED)
        return true;
    done = read_any((struct view){from, (uint64_t)stat.st_size}, ret_image);
    munmap(from, (size_t)stat.st_size);
    return ended(done, ret_image);
}

void image_free(struct sim_image *image)
{
    if (!image)
        return;
    for (unsigned at = 0; at < image->count; at++) {
        free(image->symbols[at].name);
        free(image->symbols[at].initial);
        free(image->symbols[at].parameters);
    }
    free(image->symbols);
    free(image);
}

static const struct sim_symbol *find(const struct sim_image *image, const char *name, bool kernel)
{
    for (unsigned at = 0; image && at < image->count; at++) {
        if ((image->symbols[at].kind == SYMBOL_KERNEL) == kernel &&
            !strcmp(image->symbols[at].name, name))
            return &image->symbols[at];
    }
    return NULL;
}

const struct sim_symbol *image_kernel(const struct sim_image *image, const char *name)
{
    return find(image, name, true);
}

const struct sim_symbol *image_variable(const struct sim_image *image, const char *name)
{
    return find(image, name, false);
}
