// What a target needs when libFuzzer drives it instead of tests/fuzz/driver.cpp.
#include <algorithm>

#include "fuzz/target.hpp"

// NOLINTBEGIN(readability-identifier-naming): libFuzzer's names
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t size_max);

/// Its own mutation, and in half of the cases what makes lengths and digests right again.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t size_max, unsigned seed) {
    size = LLVMFuzzerMutate(data, size, size_max);
    if (seed % 2 == 0) return size;
    std::string input{reinterpret_cast<const char*>(data), size};
    rhizome::fuzz::mend(input);
    if (input.size() > size_max) return size;
    std::copy(input.begin(), input.end(), data);
    return input.size();
}
// NOLINTEND(readability-identifier-naming)

namespace rhizome::fuzz {

void note(Outcome /*outcome*/) {}  // its coverage says more

}  // namespace rhizome::fuzz
