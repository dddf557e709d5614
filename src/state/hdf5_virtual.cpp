#include <array>
#include <limits>

#include "core/error.hpp"
#include "state/hdf5_objects.hpp"

namespace rhizome::state {
namespace {

/// A box of a tensor whose elements follow one another in memory.
struct Box {
    std::array<hsize_t, Shape::dimensions_max> first{};
    std::array<hsize_t, Shape::dimensions_max> count{};
    std::int64_t elements = 0;
};

/// The largest one that begins with this element and has no more than `count`.
Box box_at(const Shape& shape, std::int64_t first, std::int64_t count) {
    Box box;
    std::int64_t inner = shape.elements();  // elements of one slice of dimension d
    bool found = false;
    for (std::size_t d = 0; d < shape.dimensions(); ++d) {
        inner /= shape[d];
        const std::int64_t place = first / inner % shape[d];
        box.first.at(d) = static_cast<hsize_t>(place);
        std::int64_t slices = found ? shape[d] : 1;
        if (!found && first % inner == 0 && count >= inner) {
            found = true;
            slices = std::min(count / inner, shape[d] - place);
            box.elements = slices * inner;
        }
        box.count.at(d) = static_cast<hsize_t>(slices);
    }
    ENSURE(found);  // a slice of the last dimension is one element
    return box;
}

}  // namespace

VirtualTensor::VirtualTensor(const Shape& shape, DType type)
    : shape_{shape},
      type_{type},
      properties_{H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "properties"} {
    Extents extents;
    for (std::size_t d = 0; d < shape.dimensions(); ++d) {
        extents.push_back(static_cast<hsize_t>(shape[d]));
    }
    space_ = Handle{H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                    H5Sclose, "a space"};
    check_done(H5Pset_obj_track_times(properties_.id(), 0), "no times");
    // Where a share is missing people shall see it.
    constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
    check_done(H5Pset_fill_value(properties_.id(), H5T_NATIVE_DOUBLE, &nothing), "a filling");
}

void VirtualTensor::add_run(std::int64_t first, std::int64_t count, const std::string& file,
                            const std::string& dataset, std::int64_t elements,
                            std::int64_t first_there) {
    const auto all = static_cast<hsize_t>(elements);
    const Handle there{H5Screate_simple(1, &all, nullptr), H5Sclose, "a space"};
    while (count > 0) {
        const Box box = box_at(shape_, first, count);
        const auto offset = static_cast<hsize_t>(first_there);
        const auto size = static_cast<hsize_t>(box.elements);
        check_done(
            H5Sselect_hyperslab(there.id(), H5S_SELECT_SET, &offset, nullptr, &size, nullptr),
            "a run");
        check_done(H5Sselect_hyperslab(space_.id(), H5S_SELECT_SET, box.first.data(), nullptr,
                                       box.count.data(), nullptr),
                   "a box");
        check_done(H5Pset_virtual(properties_.id(), space_.id(), file.c_str(), dataset.c_str(),
                                  there.id()),
                   "a virtual dataset");
        first += box.elements;
        first_there += box.elements;
        count -= box.elements;
    }
}

void VirtualTensor::create(hid_t group, const std::string& name) const {
    const Handle dataset{H5Dcreate2(group, name.c_str(), file_type(type_), space_.id(), H5P_DEFAULT,
                                    properties_.id(), H5P_DEFAULT),
                         H5Dclose, "dataset " + name};
}

}  // namespace rhizome::state
