// The reference backend's matrix product. Each element of the result is one chain of products added
// in ascending inner index, whatever the tiles and threads: the tiles exist only so that there are
// independent chains for the vector registers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/error.hpp"
#include "device/thread_pool.hpp"

namespace rhizome::device::reference {

/// A strided view of numbers in host memory.
template <class T>
struct Matrix {
    T* data;
    std::int64_t rows;
    std::int64_t columns;
    std::int64_t row_stride;
    std::int64_t column_stride = 1;

    [[nodiscard]] T& operator()(std::int64_t row, std::int64_t column) const {
        return data[row * row_stride + column * column_stride];
    }
    [[nodiscard]] Matrix transposed() const {
        return {data, columns, rows, column_stride, row_stride};
    }
};

/// Tile of the result that is held in registers: 6 x 64 bytes fill twelve of sixteen AVX registers.
inline constexpr std::int64_t tile_rows = 6;
template <class T>
inline constexpr std::int64_t tile_columns = 64 / sizeof(T);

enum class Start : std::uint8_t { zero, old };  // of each chain: 0, or what the result held before

/// A register's worth of numbers (the compilers' vector extension), added and multiplied one by
/// one.
template <class T>
using Wide [[gnu::vector_size(32)]] = T;

/// One tile: `a` is (inner, tile_rows), `b` is (inner, tile_columns), both packed.
template <class T>
void multiply_tile(Matrix<T> c, const T* a, const T* b, std::int64_t inner, Start start) {
    constexpr std::int64_t lanes = sizeof(Wide<T>) / sizeof(T);
    constexpr std::int64_t wides = tile_columns<T> / lanes;
    T plain[tile_rows][tile_columns<T>] = {};
    if (start == Start::old) {
        for (std::int64_t i = 0; i < c.rows; ++i) {
            for (std::int64_t j = 0; j < c.columns; ++j) plain[i][j] = c(i, j);
        }
    }
    Wide<T> sum[tile_rows][wides];
    std::memcpy(sum, plain, sizeof sum);
    for (std::int64_t k = 0; k < inner; ++k, a += tile_rows, b += tile_columns<T>) {
        Wide<T> row[wides];
        for (std::int64_t j = 0; j < wides; ++j) {  // one by one: each is one load
            std::memcpy(&row[j], b + j * lanes, sizeof row[j]);
        }
#pragma GCC unroll 6
        for (std::int64_t i = 0; i < tile_rows; ++i) {
#pragma GCC unroll 2
            for (std::int64_t j = 0; j < wides; ++j) sum[i][j] += a[i] * row[j];
        }
    }
    std::memcpy(plain, sum, sizeof sum);
    for (std::int64_t i = 0; i < c.rows; ++i) {
        for (std::int64_t j = 0; j < c.columns; ++j) c(i, j) = plain[i][j];
    }
}

/// Tiles of a few columns (or rows) of `m`, each laid out inner index first and filled up with
/// zeros.
template <class T>
void pack(T* to, Matrix<T> m, std::int64_t first, std::int64_t width) {
    const std::int64_t used = std::min(width, m.columns - first);
    for (std::int64_t k = 0; k < m.rows; ++k, to += width) {
        for (std::int64_t j = 0; j < used; ++j) to[j] = m(k, first + j);
        for (std::int64_t j = used; j < width; ++j) to[j] = T{0};
    }
}

/// c = a b, or c += a b with Start::old. Row tiles are shared out among the pool's threads.
template <class T>
void multiply(ThreadPool& pool, Matrix<T> c, Matrix<T> a, Matrix<T> b, Start start) {
    ENSURE(a.rows == c.rows && b.columns == c.columns && a.columns == b.rows);
    constexpr std::int64_t columns = tile_columns<T>;
    const std::int64_t inner = a.columns;
    const std::int64_t column_tiles = (c.columns + columns - 1) / columns;
    const std::int64_t row_tiles = (c.rows + tile_rows - 1) / tile_rows;

    std::vector<T> packed_b(static_cast<std::size_t>(column_tiles * inner * columns));
    const auto tile_b = [&](std::int64_t tile) { return packed_b.data() + tile * inner * columns; };
    pool.run(column_tiles, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t t = first; t < last; ++t) pack(tile_b(t), b, t * columns, columns);
    });
    pool.run(row_tiles, [&](std::int64_t first, std::int64_t last) {
        std::vector<T> packed_a(static_cast<std::size_t>(inner * tile_rows));
        for (std::int64_t row_tile = first; row_tile < last; ++row_tile) {
            const std::int64_t row = row_tile * tile_rows;
            pack(packed_a.data(), a.transposed(), row, tile_rows);
            for (std::int64_t t = 0; t < column_tiles; ++t) {
                const std::int64_t column = t * columns;
                const Matrix<T> tile{&c(row, column), std::min(tile_rows, c.rows - row),
                                     std::min(columns, c.columns - column), c.row_stride,
                                     c.column_stride};
                multiply_tile(tile, packed_a.data(), tile_b(t), inner, start);
            }
        }
    });
}

}  // namespace rhizome::device::reference
