// A device test that runs once in single and once in double precision.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "support/workbench.hpp"

namespace rhizome::tests {

class DeviceCase : public testing::TestWithParam<DType> {
  protected:
    [[nodiscard]] static DType dtype() { return GetParam(); }
    /// A few roundings, as a share of the largest number.
    [[nodiscard]] static double tolerance() { return dtype() == DType::f64 ? 1e-14 : 2e-6; }

    [[nodiscard]] device::Tensor put(const Shape& shape, const std::vector<double>& values) {
        return bench.put(shape, dtype(), values);
    }
    [[nodiscard]] device::Tensor random(const Shape& shape, std::uint64_t seed) {
        return bench.random(shape, dtype(), seed);
    }
    [[nodiscard]] device::Tensor poisoned(const Shape& shape) {
        return bench.poisoned(shape, dtype());
    }
    [[nodiscard]] device::Tensor integers(const Shape& shape, const std::vector<double>& values) {
        return bench.put(shape, DType::i32, values);
    }
    [[nodiscard]] std::vector<double> read(const device::Tensor& tensor) {
        return bench.read(tensor);
    }

    Workbench bench;
    device::Stream& stream = bench.stream();
};

inline std::string name_of_dtype(const testing::TestParamInfo<DType>& info) {
    return info.param == DType::f64 ? "f64" : "f32";
}

}  // namespace rhizome::tests
