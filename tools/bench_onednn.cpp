#include "bench_onednn.hpp"

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>

#include "bench_support.hpp"

/// Of OpenMP; its header belongs to one compiler, and clang's tools do without.
extern "C" void omp_set_num_threads(int threads);

namespace rhizome::bench {
namespace {

using Type = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;
using Desc = dnnl::memory::desc;

dnnl::matmul::primitive_desc plan(const dnnl::engine& engine, const Desc& left, const Desc& right,
                                  const Desc& out) {
#if DNNL_VERSION_MAJOR >= 3
    return {engine, left, right, out};
#else
    return {dnnl::matmul::desc{left, right, out}, engine};
#endif
}

Desc described(std::int64_t rows, std::int64_t columns, Type type, bool transposed) {
    return {{rows, columns}, type, transposed ? Tag::ba : Tag::ab};
}

/// Some numbers, moved into the order that is asked for.
dnnl::memory filled(const dnnl::engine& engine, dnnl::stream& stream, const Desc& wanted,
                    std::int64_t rows, std::int64_t columns) {
    dnnl::memory plain{described(rows, columns, Type::f32, false), engine};
    std::fill_n(static_cast<float*>(plain.get_data_handle()), rows * columns, 0.01F);
    dnnl::memory made{wanted, engine};
    dnnl::reorder{plain, made}.execute(stream, plain, made);
    stream.wait();
    return made;
}

}  // namespace

double matmul_seconds(const MatmulShape& shape, MatmulKind kind) try {
    ::omp_set_num_threads(1);
    const dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    const Type type = kind == MatmulKind::packed_fp32 ? Type::f32 : Type::bf16;
    const bool packed = kind != MatmulKind::bf16;
    const auto factor = [&](std::int64_t rows, std::int64_t columns, bool transposed) {
        return packed ? Desc{{rows, columns}, type, Tag::any}
                      : described(rows, columns, type, transposed);
    };
    const auto planned = plan(engine, factor(shape.rows, shape.inner, shape.left_transposed),
                              factor(shape.inner, shape.columns, shape.right_transposed),
                              described(shape.rows, shape.columns, Type::f32, false));
    const auto left = filled(engine, stream, planned.src_desc(), shape.rows, shape.inner);
    const auto right = filled(engine, stream, planned.weights_desc(), shape.inner, shape.columns);
    const dnnl::memory out{planned.dst_desc(), engine};
    const dnnl::matmul product{planned};
    return seconds([&] {
        product.execute(stream,
                        {{DNNL_ARG_SRC, left}, {DNNL_ARG_WEIGHTS, right}, {DNNL_ARG_DST, out}});
        stream.wait();
    });
} catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
    return 0;
}

}  // namespace rhizome::bench
