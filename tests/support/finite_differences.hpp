// Gradients found by trying: the judge of every backward pass.
#pragma once

#include <functional>
#include <vector>

#include "support/workbench.hpp"

namespace rhizome::tests {

/// A direction for a gradient: what a backward pass gets as the gradient of an output, and what the
/// output is multiplied by to become one number.
inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
    EXPECT_EQ(a.size(), b.size());
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
}

/// Elements of a tensor to look at: all of a small one, evenly spread over a large one.
inline std::vector<std::int64_t> some_elements(std::int64_t elements, std::int64_t count_max) {
    const std::int64_t count = std::min(elements, count_max);
    std::vector<std::int64_t> chosen;
    for (std::int64_t i = 0; i < count; ++i) chosen.push_back(i * elements / count);
    return chosen;
}

/// d f / d x of these elements of an f64 tensor, by central differences of fourth order: with this
/// step, truncation and rounding both stay near 1e-12 of f's size. x is as before afterwards.
inline std::vector<double> finite_differences(Workbench& bench, const device::Tensor& x,
                                              const std::vector<std::int64_t>& elements,
                                              const std::function<double()>& f) {
    constexpr double step = 1e-3;
    const std::vector<double> values = bench.read(x);
    std::vector<double> derivatives;
    for (const std::int64_t element : elements) {
        const device::Tensor place = x.slice(element, 1);
        const double middle = values[static_cast<std::size_t>(element)];
        const auto at = [&](double distance) {
            bench.write(place, {middle + distance});
            return f();
        };
        const double near = at(step) - at(-step);
        const double far = at(2 * step) - at(-2 * step);
        derivatives.push_back((8 * near - far) / (12 * step));
        bench.write(place, {middle});
    }
    return derivatives;
}

/// All elements.
inline std::vector<double> finite_differences(Workbench& bench, const device::Tensor& x,
                                              const std::function<double()>& f) {
    return finite_differences(bench, x, some_elements(x.elements(), x.elements()), f);
}

}  // namespace rhizome::tests
