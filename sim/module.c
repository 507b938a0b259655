/*
 * Modules, libraries, functions. Any image loads and has any function asked for: "simgpu_busy" takes as long as its one
 * 64-bit argument says, in nanoseconds, "simgpu_until" until a word in memory has a value, every other name KERNEL_NS.
 */
#include "stream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KERNEL_NS 10000

struct sim_module {
    unsigned magic;
    struct sim_context *context;
    struct sim_library *library;
    uint64_t charged;
    struct sim_function *functions;
    struct sim_module *next;
};

struct sim_library {
    unsigned magic;
    struct sim_context *context; /* in which its code is loaded; NULL: in none */
    uint64_t charged;
    struct sim_function *functions;
    struct sim_module *module;
    struct sim_library *next;
};

static struct sim_library *libraries; /* guarded by sim.mutex */

static struct sim_function *function_of(struct sim_function **list, const char *name, struct sim_module *module,
                                        struct sim_library *library)
{
    for (struct sim_function *function = *list; function; function = function->next) {
        if (!strcmp(function->name, name))
            return function;
    }
    struct sim_function *function = sim_object(sizeof(*function) + strlen(name) + 1, MAGIC_FUNCTION);
    if (!function)
        return NULL;
    strcpy(function->name, name);
    function->kind = !strcmp(name, "simgpu_busy")    ? FUNCTION_BUSY
                     : !strcmp(name, "simgpu_until") ? FUNCTION_UNTIL
                                                     : FUNCTION_ANY;
    function->module = module;
    function->library = library;
    function->next = *list;
    *list = function;
    return function;
}

int function_parameters(const struct sim_function *function, const unsigned char **ret_bytes)
{
    static const unsigned char until[] = {8, 4};

    *ret_bytes = until; /* the busy kernel has the first of them */
    return function->kind == FUNCTION_UNTIL ? 2 : function->kind == FUNCTION_BUSY;
}

bool function_arguments(const struct sim_function *function, void **params, void **extra, uint64_t values[2])
{
    enum { END, BUFFER, SIZE }; /* CU_LAUNCH_PARAM_... */
    const unsigned char *bytes, *buffer = NULL;
    int count = function_parameters(function, &bytes);

    values[0] = values[1] = 0;
    for (int at = 0; !params && extra && extra[at]; at += 2) {
        if (extra[at] == (void *)BUFFER)
            buffer = extra[at + 1];
    }
    for (int at = 0; at < count; at++) {
        const void *from = params ? params[at] : buffer;
        if (!from)
            return false;
        memcpy(&values[at], params ? from : buffer + (at ? bytes[0] : 0), bytes[at]);
    }
    return count > 0;
}

struct sim_kernel function_kernel(const struct sim_function *function, void **params, void **extra)
{
    struct sim_kernel kernel = {.duration_ns = KERNEL_NS};
    uint64_t values[2];

    if (!function_arguments(function, params, extra, values))
        return kernel;
    kernel.until = function->kind == FUNCTION_UNTIL;
    kernel.duration_ns = kernel.until ? SIM_FOREVER_NS : values[0];
    kernel.address = values[0];
    kernel.value = (uint32_t)values[1];
    return kernel;
}

static void retire_functions(struct sim_function *function)
{
    while (function) {
        struct sim_function *next = function->next;
        free(function->parameters);
        function->parameters = NULL;
        handle_retire(function);
        function = next;
    }
}

static void module_free(struct sim_module *module)
{
    for (struct sim_module **link = &module->context->modules; *link; link = &(*link)->next) {
        if (*link == module) {
            *link = module->next;
            break;
        }
    }
    sim_release(module->context->device, SIM_MODULE, module->charged);
    if (module->library)
        module->library->module = NULL;
    retire_functions(module->functions);
    handle_retire(module);
}

/* A library outlives the context, but not its code there. */
static void library_leave(struct sim_library *library)
{
    if (!library->context)
        return;
    sim_release(library->context->device, SIM_MODULE, library->charged);
    library->charged = 0;
    library->context = NULL;
}

void module_destroy_all(struct sim_context *context)
{
    while (context->modules)
        module_free(context->modules);
    for (struct sim_library *library = libraries; library; library = library->next) {
        if (library->context == context)
            library_leave(library);
    }
}

int module_load(struct sim_module **ret_module, const void *image)
{
    struct sim_context *context;

    int code = context_need(&context);
    if (code)
        return code;
    if (!ret_module || !image)
        return ERR_INVALID_VALUE;
    struct sim_module *module = sim_object(sizeof(*module), MAGIC_MODULE);
    if (!module)
        return ERR_OUT_OF_MEMORY;
    sim_lock();
    code = sim_charge(context->device, SIM_MODULE, sim.module_bytes);
    if (!code) {
        module->charged = sim.module_bytes;
        module->context = context;
        module->next = context->modules;
        context->modules = module;
    }
    sim_unlock();
    if (code)
        free(module);
    else
        *ret_module = module;
    return code;
}

API(cuModuleLoad, struct sim_module **ret_module, const char *path)
{
    ENTER_KERNEL(cuModuleLoad);
    if (!path)
        return ERR_INVALID_VALUE;
    return access(path, R_OK) ? ERR_FILE_NOT_FOUND : module_load(ret_module, path);
}

API(cuModuleLoadData, struct sim_module **ret_module, const void *image)
{
    ENTER_KERNEL(cuModuleLoadData);
    return module_load(ret_module, image);
}

API(cuModuleLoadDataEx, struct sim_module **ret_module, const void *image, unsigned count, int *options, void **values)
{
    ENTER_KERNEL(cuModuleLoadDataEx);
    if (count && (!options || !values))
        return ERR_INVALID_VALUE;
    return module_load(ret_module, image);
}

API(cuModuleLoadFatBinary, struct sim_module **ret_module, const void *image)
{
    ENTER_KERNEL(cuModuleLoadFatBinary);
    return module_load(ret_module, image);
}

API(cuModuleUnload, struct sim_module *module)
{
    ENTER_KERNEL(cuModuleUnload);
    if (!IS(module, MAGIC_MODULE) || module->library)
        return ERR_INVALID_HANDLE;
    sim_lock();
    module_free(module);
    sim_unlock();
    return OK;
}

API(cuModuleGetFunction, struct sim_function **ret_function, struct sim_module *module, const char *name)
{
    ENTER(cuModuleGetFunction);
    if (!IS(module, MAGIC_MODULE))
        return ERR_INVALID_HANDLE;
    if (!ret_function || !name)
        return ERR_INVALID_VALUE;
    sim_lock();
    struct sim_function *function = function_of(&module->functions, name, module, module->library);
    sim_unlock();
    if (!function)
        return ERR_OUT_OF_MEMORY;
    *ret_function = function;
    return OK;
}

API(cuModuleGetFunctionCount, unsigned *ret_count, struct sim_module *module)
{
    ENTER(cuModuleGetFunctionCount);
    if (!IS(module, MAGIC_MODULE))
        return ERR_INVALID_HANDLE;
    if (!ret_count)
        return ERR_INVALID_VALUE;
    *ret_count = 0;
    for (struct sim_function *function = module->functions; function; function = function->next)
        ++*ret_count;
    return OK;
}

API(cuModuleGetGlobal_v2, devptr *ret_address, size_t *ret_bytes, struct sim_module *module, const char *name)
{
    ENTER(cuModuleGetGlobal_v2);
    (void)ret_address;
    (void)ret_bytes;
    if (!IS(module, MAGIC_MODULE))
        return ERR_INVALID_HANDLE;
    return name ? ERR_NOT_FOUND : ERR_INVALID_VALUE;
}

API(cuModuleGetLoadingMode, int *ret_mode)
{
    ENTER(cuModuleGetLoadingMode);
    if (!ret_mode)
        return ERR_INVALID_VALUE;
    *ret_mode = sim.lazy ? 2 : 1; /* eager */
    return OK;
}

/* A library that has no code in a context takes its memory when something of it is asked for in one. */
static int settle(struct sim_library *library)
{
    struct sim_context *context = sim_current();

    if (library->context || !context || context->dead)
        return OK;
    int code = sim_charge(context->device, SIM_MODULE, sim.module_bytes);
    if (code)
        return code;
    library->charged = sim.module_bytes;
    library->context = context;
    return OK;
}

static int load_library(struct sim_library **ret_library, const void *image)
{
    if (!ret_library || !image)
        return ERR_INVALID_VALUE;
    struct sim_library *library = sim_object(sizeof(*library), MAGIC_LIBRARY);
    if (!library)
        return ERR_OUT_OF_MEMORY;
    sim_lock();
    int code = settle(library);
    if (!code) {
        library->next = libraries;
        libraries = library;
    }
    sim_unlock();
    if (code)
        free(library);
    else
        *ret_library = library;
    return code;
}

API(cuLibraryLoadData, struct sim_library **ret_library, const void *image, int *jit, void **jit_values,
    unsigned jit_count, int *options, void **values, unsigned count)
{
    ENTER_KERNEL(cuLibraryLoadData);
    if ((jit_count && (!jit || !jit_values)) || (count && (!options || !values)))
        return ERR_INVALID_VALUE;
    return load_library(ret_library, image);
}

API(cuLibraryLoadFromFile, struct sim_library **ret_library, const char *path, int *jit, void **jit_values,
    unsigned jit_count, int *options, void **values, unsigned count)
{
    ENTER_KERNEL(cuLibraryLoadFromFile);
    if ((jit_count && (!jit || !jit_values)) || (count && (!options || !values)) || !path)
        return ERR_INVALID_VALUE;
    return access(path, R_OK) ? ERR_FILE_NOT_FOUND : load_library(ret_library, path);
}

API(cuLibraryUnload, struct sim_library *library)
{
    ENTER_KERNEL(cuLibraryUnload);
    if (!IS(library, MAGIC_LIBRARY))
        return ERR_INVALID_HANDLE;
    sim_lock();
    library_leave(library);
    for (struct sim_library **link = &libraries; *link; link = &(*link)->next) {
        if (*link == library) {
            *link = library->next;
            break;
        }
    }
    if (library->module)
        module_free(library->module);
    retire_functions(library->functions);
    handle_retire(library);
    sim_unlock();
    return OK;
}

API(cuLibraryGetKernel, struct sim_function **ret_kernel, struct sim_library *library, const char *name)
{
    ENTER(cuLibraryGetKernel);
    if (!IS(library, MAGIC_LIBRARY))
        return ERR_INVALID_HANDLE;
    if (!ret_kernel || !name)
        return ERR_INVALID_VALUE;
    sim_lock();
    int code = settle(library);
    struct sim_function *function = code ? NULL : function_of(&library->functions, name, NULL, library);
    sim_unlock();
    if (!function)
        return ERR_OUT_OF_MEMORY;
    *ret_kernel = function;
    return OK;
}

API(cuLibraryGetModule, struct sim_module **ret_module, struct sim_library *library)
{
    struct sim_context *context;

    ENTER(cuLibraryGetModule);
    int code = context_need(&context);
    if (code)
        return code;
    if (!IS(library, MAGIC_LIBRARY))
        return ERR_INVALID_HANDLE;
    if (!ret_module)
        return ERR_INVALID_VALUE;
    sim_lock();
    code = settle(library);
    if (!code && !library->module) {
        library->module = sim_object(sizeof(*library->module), MAGIC_MODULE);
        if (library->module) {
            library->module->library = library;
            library->module->context = context;
            library->module->next = context->modules;
            context->modules = library->module;
        }
    }
    sim_unlock();
    if (code || !library->module)
        return ERR_OUT_OF_MEMORY;
    *ret_module = library->module;
    return OK;
}

API(cuLibraryGetKernelCount, unsigned *ret_count, struct sim_library *library)
{
    ENTER(cuLibraryGetKernelCount);
    if (!IS(library, MAGIC_LIBRARY))
        return ERR_INVALID_HANDLE;
    if (!ret_count)
        return ERR_INVALID_VALUE;
    *ret_count = 0;
    for (struct sim_function *function = library->functions; function; function = function->next)
        ++*ret_count;
    return OK;
}

API(cuLibraryGetGlobal, devptr *ret_address, size_t *ret_bytes, struct sim_library *library, const char *name)
{
    ENTER(cuLibraryGetGlobal);
    (void)ret_address;
    (void)ret_bytes;
    if (!IS(library, MAGIC_LIBRARY))
        return ERR_INVALID_HANDLE;
    return name ? ERR_NOT_FOUND : ERR_INVALID_VALUE;
}

API(cuKernelGetFunction, struct sim_function **ret_function, struct sim_function *kernel)
{
    struct sim_context *context;

    ENTER(cuKernelGetFunction);
    int code = context_need(&context);
    if (code)
        return code;
    if (!IS(kernel, MAGIC_FUNCTION))
        return ERR_INVALID_HANDLE;
    if (!ret_function)
        return ERR_INVALID_VALUE;
    *ret_function = kernel;
    return OK;
}

API(cuKernelGetLibrary, struct sim_library **ret_library, struct sim_function *kernel)
{
    ENTER(cuKernelGetLibrary);
    if (!IS(kernel, MAGIC_FUNCTION) || !kernel->library)
        return ERR_INVALID_HANDLE;
    if (!ret_library)
        return ERR_INVALID_VALUE;
    *ret_library = kernel->library;
    return OK;
}

API(cuFuncGetModule, struct sim_module **ret_module, struct sim_function *function)
{
    ENTER(cuFuncGetModule);
    if (!IS(function, MAGIC_FUNCTION) || !function->module)
        return ERR_INVALID_HANDLE;
    if (!ret_module)
        return ERR_INVALID_VALUE;
    *ret_module = function->module;
    return OK;
}
