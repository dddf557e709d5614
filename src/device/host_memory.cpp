#include "device/host_memory.hpp"

#include <sys/mman.h>

#include <new>

#include "core/error.hpp"

namespace rhizome::device {
namespace {

constexpr std::int64_t huge_page = std::int64_t{2} << 20;

}  // namespace

Memory allocate_on_host(std::int64_t bytes) {
    ENSURE(bytes >= 0);
    const auto size = static_cast<std::size_t>(bytes);
    const std::align_val_t alignment{
        static_cast<std::size_t>(bytes < huge_page ? Layout::alignment : huge_page)};
    auto* const data = static_cast<std::byte*>(::operator new(size, alignment));
    // A wish: where the system refuses it, small pages serve as well.
    if (bytes >= huge_page) ::madvise(data, size, MADV_HUGEPAGE);
    return {data, bytes, [alignment](std::byte* memory) { ::operator delete(memory, alignment); }};
}

}  // namespace rhizome::device
