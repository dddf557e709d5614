#include "device/cpu_matrix.hpp"

#include <oneapi/dnnl/dnnl.h>

#include <new>

#include "core/error.hpp"

/// Of OpenMP; its header belongs to one compiler, and clang's tools do without.
extern "C" void omp_set_num_threads(int threads);

namespace rhizome::device::cpu {
namespace {

/// The backend has threads of its own; oneDNN's would share its cores with them. The setting is one
/// of each host thread.
void keep_to_this_thread() {
    thread_local bool done = false;
    if (done) return;
    ::omp_set_num_threads(1);
    done = true;
}

char letter(Order order) { return order == Order::plain ? 'N' : 'T'; }

std::string instruction_set() {
    switch (static_cast<unsigned>(::dnnl_get_effective_cpu_isa())) {
        case 0x1:
            return "sse41";
        case 0x3:
            return "avx";
        case 0x7:
            return "avx2";
        case 0x27:
            return "avx512_core";
        case 0x67:
            return "avx512_core_vnni";
        case 0xe7:
            return "avx512_core_bf16";
        case 0x3e7:
            return "avx512_core_amx";
        case 0x407:
            return "avx2_vnni";
        default:
            return "isa " + std::to_string(static_cast<unsigned>(::dnnl_get_effective_cpu_isa()));
    }
}

}  // namespace

void multiply(const Product& product, float* out, std::int64_t out_stride, Factor a, Factor b) {
    keep_to_this_thread();
    const dnnl_status_t status = ::dnnl_sgemm(
        letter(a.order), letter(b.order), product.rows, product.columns, product.inner,
        product.scale, a.data, a.stride, b.data, b.stride, product.keep, out, out_stride);
    if (status == dnnl_out_of_memory) throw std::bad_alloc{};
    ENSURE(status == dnnl_success);
}

std::string matrix_fingerprint() {
    const dnnl_version_t* const version = ::dnnl_version();
    return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
           std::to_string(version->patch) + " " + instruction_set();
}

}  // namespace rhizome::device::cpu
