#include "state/hdf5_file.hpp"

#if H5_VERSION_GE(1, 13, 2)
#include <H5FDdevelop.h>
#endif

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <utility>

#include "core/error.hpp"

namespace rhizome::state {
namespace {

/// HDF5 is one big global state, and its usual build has no lock of its own. So this is the one
/// mutable global that the house rules cannot forbid: the library's, and a lock for it.
std::mutex& library_mutex() {
    static std::mutex mutex;
    return mutex;
}

constexpr herr_t done = 0;
constexpr herr_t failed = -1;

/// HDF5's own part comes first: it casts between the two. HDF5 may keep a file that it could not
/// open, until the process ends, so the image must live as long as its driver.
struct ImageDriver {
    H5FD_t base;
    std::shared_ptr<Image>* image;
};
static_assert(std::is_standard_layout_v<ImageDriver>);

/// Goes to the driver by way of the access properties.
struct DriverInfo {
    const std::shared_ptr<Image>* image;
};

Image& image_of(const H5FD_t* file) { return **reinterpret_cast<const ImageDriver*>(file)->image; }

H5FD_t* open_image(const char*, unsigned, hid_t access, haddr_t) {
    const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(access));
    if (info == nullptr) return nullptr;
    auto* driver = new (std::nothrow) ImageDriver{};
    if (driver == nullptr) return nullptr;
    driver->image = new (std::nothrow) std::shared_ptr<Image>{*info->image};
    if (driver->image != nullptr) return &driver->base;
    delete driver;
    return nullptr;
}

herr_t close_image(H5FD_t* file) {
    auto* driver = reinterpret_cast<ImageDriver*>(file);
    delete driver->image;
    delete driver;
    return done;
}

/// No features: space is given out piece by piece, at the end of the file, and nothing is held
/// back.
herr_t query_features(const H5FD_t*, unsigned long* features) {
    *features = 0;
    return done;
}

haddr_t get_allocated(const H5FD_t* file, H5FD_mem_t) {
    return static_cast<haddr_t>(image_of(file).allocated);
}

herr_t set_allocated(H5FD_t* file, H5FD_mem_t, haddr_t end) {
    image_of(file).allocated = static_cast<std::int64_t>(end);
    return done;
}

haddr_t get_end(const H5FD_t* file, H5FD_mem_t) { return static_cast<haddr_t>(image_of(file).end); }

herr_t truncate_image(H5FD_t* file, hid_t, hbool_t) {
    Image& image = image_of(file);
    if (image.phase != Image::Phase::reading) image.end = image.allocated;
    return done;
}

herr_t read_image(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t size, void* to) {
    const Image& image = image_of(file);
    const std::size_t here = at < image.bytes.size() ? image.bytes.size() - at : 0;
    const std::size_t count = std::min(size, here);
    // HDF5 reads ahead where it does not know a thing's size yet, so a read may begin here and end
    // beyond. What it takes is checked: metadata have checksums.
    if (here == 0 && image.phase == Image::Phase::reading) return failed;
    auto* const bytes = static_cast<std::byte*>(to);
    std::copy_n(image.bytes.begin() + static_cast<std::ptrdiff_t>(std::min(at, image.bytes.size())),
                count, bytes);
    std::fill_n(bytes + count, size - count, std::byte{0});
    return done;
}

herr_t write_image(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t size, const void* from) {
    Image& image = image_of(file);
    if (image.phase == Image::Phase::reading) return failed;
    image.end = std::max(image.end, static_cast<std::int64_t>(at + size));
    if (image.phase == Image::Phase::placing && at >= image.bytes.size()) return done;
    if (at + size > image.bytes.size()) {
        if (image.phase == Image::Phase::placing) return failed;
        try {
            image.bytes.resize(at + size);
        } catch (const std::exception&) {  // no memory; C cannot pass it on
            return failed;
        }
    }
    std::copy_n(static_cast<const std::byte*>(from), size,
                image.bytes.begin() + static_cast<std::ptrdiff_t>(at));
    return done;
}

/// The members of this struct, and their order, differ between the library's versions.
Handle register_driver() {
    H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 2)
    driver.version = H5FD_CLASS_VERSION;
    driver.value = static_cast<H5FD_class_value_t>(511);  // for drivers that are not registered
#endif
    driver.name = "rhizome_image";
    driver.maxaddr = static_cast<haddr_t>(INT64_MAX);
    driver.fc_degree = H5F_CLOSE_STRONG;
    driver.fapl_size = sizeof(DriverInfo);
    driver.open = open_image;
    driver.close = close_image;
    driver.query = query_features;
    driver.get_eoa = get_allocated;
    driver.set_eoa = set_allocated;
    driver.get_eof = get_end;
    driver.read = read_image;
    driver.write = write_image;
    driver.truncate = truncate_image;
    // Space of metadata that was given back is never given to values.
    constexpr std::array<H5FD_mem_t, H5FD_MEM_NTYPES> spaces H5FD_FLMAP_DICHOTOMY;
    std::copy(spaces.begin(), spaces.end(), std::begin(driver.fl_map));
    return {H5FDregister(&driver), H5FDunregister, "a driver"};
}

Handle make_properties(hid_t kind) { return {H5Pcreate(kind), H5Pclose, "properties"}; }

Handle make_access(const Handle& driver, const std::shared_ptr<Image>& image) {
    Handle access = make_properties(H5P_FILE_ACCESS);
    const DriverInfo info{&image};
    check_done(H5Pset_driver(access.id(), driver.id(), &info), "the driver");
    // Checksums in the metadata; and nothing that 1.10, the first to know virtual datasets, does
    // not read.
    check_done(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, H5F_LIBVER_V110), "its version");
    return access;
}

}  // namespace

Hdf5Turn::Hdf5Turn() : lock_{library_mutex()} {
    // What a forged file has left open makes HDF5 print riddles at the program's end. Fails once it
    // has been initialized, and then has been called before.
    static_cast<void>(H5dont_atexit());
    H5Eget_auto2(H5E_DEFAULT, &printer_, &printer_data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Hdf5Turn::~Hdf5Turn() { H5Eset_auto2(H5E_DEFAULT, printer_, printer_data_); }

Handle::Handle(hid_t id, Close close, const std::string& what) : id_{id}, close_{close} {
    if (id_ < 0) throw Hdf5Error{"HDF5 refuses " + what};
}

Handle::Handle(Handle&& other) noexcept
    : id_{std::exchange(other.id_, H5I_INVALID_HID)}, close_{other.close_} {}

Handle& Handle::operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
}

void Handle::reset() {
    if (id_ >= 0) close_(id_);
    id_ = H5I_INVALID_HID;
}

hid_t Handle::release() { return std::exchange(id_, H5I_INVALID_HID); }

void check_done(herr_t result, const std::string& what) {
    if (result < 0) throw Hdf5Error{"HDF5 refuses " + what};
}

Hdf5File::Hdf5File(std::int64_t reserved)
    : image_{std::make_shared<Image>()}, driver_{register_driver()} {
    const Handle access = make_access(driver_, image_);
    const Handle creation = make_properties(H5P_FILE_CREATE);
    check_done(H5Pset_userblock(creation.id(), static_cast<hsize_t>(reserved)), "its header");
    // The same content is the same bytes.
    check_done(H5Pset_obj_track_times(creation.id(), false), "a file without times");
    file_ = Handle{H5Fcreate("state", H5F_ACC_TRUNC, creation.id(), access.id()), H5Fclose,
                   "a new file"};
}

Hdf5File::Hdf5File(std::vector<std::byte> structure, std::int64_t bytes)
    : image_{std::make_shared<Image>()}, driver_{register_driver()} {
    image_->phase = Image::Phase::reading;
    image_->bytes = std::move(structure);
    image_->end = bytes;
    const Handle access = make_access(driver_, image_);
    file_ = Handle{H5Fopen("state", H5F_ACC_RDONLY, access.id()), H5Fclose, "this file"};
}

void Hdf5File::start_placing() {
    check_done(H5Fflush(id(), H5F_SCOPE_GLOBAL), "to write");
    image_->bytes.resize(static_cast<std::size_t>(image_->allocated));
    image_->phase = Image::Phase::placing;
}

Image Hdf5File::close() {
    check_done(H5Fclose(file_.release()), "to close the file");
    return std::move(*image_);
}

}  // namespace rhizome::state
