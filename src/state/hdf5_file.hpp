// HDF5 as this room uses it: the library sees only memory. What it writes are the parts of a file
// that are not values; values it gives a place, and File writes them there. What it reads has been
// read, and checked against a digest, before. So the disk is touched by File alone, no error of a
// disk has to find its way through a C library, and the library's lock is held for no disk.
//
// Private to this room.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace rhizome::state {

/// HDF5 refuses, or what it shows is not what the format says.
struct Hdf5Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The right to call HDF5. Whoever holds it is the only one, and errors are not printed.
class Hdf5Turn {
  public:
    Hdf5Turn();
    ~Hdf5Turn();
    Hdf5Turn(const Hdf5Turn&) = delete;
    Hdf5Turn& operator=(const Hdf5Turn&) = delete;

  private:
    std::unique_lock<std::mutex> lock_;
    H5E_auto2_t printer_ = nullptr;
    void* printer_data_ = nullptr;
};

/// An object of HDF5's.
class Handle {
  public:
    using Close = herr_t (*)(hid_t);
    Handle() = default;
    /// Throws Hdf5Error if `id` says that there was trouble with `what`.
    Handle(hid_t id, Close close, const std::string& what);
    ~Handle() { reset(); }
    Handle(Handle&& other) noexcept;
    Handle& operator=(Handle&& other) noexcept;

    [[nodiscard]] hid_t id() const { return id_; }
    void reset();
    /// Whoever calls it closes the object.
    [[nodiscard]] hid_t release();

  private:
    hid_t id_ = H5I_INVALID_HID;
    Close close_ = nullptr;
};

/// Throws Hdf5Error if HDF5 says that it could not.
void check_done(herr_t result, const std::string& what);

/// The memory that HDF5 takes for a file.
struct Image {
    enum class Phase : std::uint8_t {
        building,  // all that is written is kept
        placing,   // nothing beyond `bytes` is kept any more: values get their places
        reading,   // beyond `bytes` there is nothing
    };
    Phase phase = Phase::building;
    std::vector<std::byte> bytes;
    std::int64_t end = 0;        // of the file
    std::int64_t allocated = 0;  // up to where HDF5 has given out space
};

/// An open file; holds the turn as long as it lives. Objects in it must not outlive it.
class Hdf5File {
  public:
    /// A new one. `reserved` bytes at its start are not HDF5's.
    explicit Hdf5File(std::int64_t reserved);
    /// One of `bytes` bytes, of which HDF5 sees the first.
    Hdf5File(std::vector<std::byte> structure, std::int64_t bytes);

    [[nodiscard]] hid_t id() const { return file_.id(); }
    /// All before the values.
    [[nodiscard]] std::span<const std::byte> structure() const { return image_.bytes; }

    /// Ends the building: whatever gets space from now on lies behind the structure.
    void start_placing();
    /// Returns the structure; all else the file has is places. No object in it may be open.
    [[nodiscard]] Image close();

  private:
    Hdf5Turn turn_;
    Image image_;
    Handle driver_;
    Handle file_;
};

}  // namespace rhizome::state
