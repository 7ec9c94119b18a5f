#include "runtime/data/index_array.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"

#include <cstring>
#include <type_traits>

namespace troupe::runtime {
namespace {

std::size_t width_of(index_type type) {
  return type == index_type::i64 ? 8 : 4;
}

const char* descr(index_type type) {
  return type == index_type::i64 ? "<i8" : type == index_type::i32 ? "<i4" : "<u4";
}

}  // namespace

std::size_t index_shape::elements() const {
  std::size_t n = 1;
  for (const auto extent : extents)
    n *= static_cast<std::size_t>(extent);
  return n;
}

std::size_t index_shape::bytes() const {
  return elements() * width_of(type);
}

std::string index_shape::npy_header() const {
  std::string tuple;
  for (const auto extent : extents)
    tuple += (tuple.empty() ? "" : ", ") + std::to_string(extent);
  if (extents.size() == 1)
    tuple += ",";
  auto text = fmt::format(
      "{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr(type), tuple);
  // numpy leaves room for the outermost extent to grow to 21 digits in place.
  if (!extents.empty())
    text.append(21 - std::to_string(extents.front()).size(), ' ');
  constexpr std::size_t before = 10;  // magic, version, length
  text.append(63 - (before + text.size()) % 64, ' ');
  text += '\n';
  const auto size = static_cast<std::uint16_t>(text.size());
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(size & 0xff);
  header += static_cast<char>(size >> 8);
  return header + text;
}

template <class T>
index_array::index_array(index_shape shape, std::vector<T> values) : shape_(std::move(shape)) {
  width_ = sizeof(T);
  data_ = std::as_bytes(std::span(values));  // stays valid: a move keeps the memory
  if constexpr (std::is_same_v<T, std::int32_t>)
    narrow_ = std::move(values);
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    narrow_unsigned_ = std::move(values);
  else
    wide_ = std::move(values);
  ensure(width_ == width_of(shape_.type) && data_.size() == shape_.bytes(),
         "INDEX-2: an index has as many elements as its shape says");
}

template index_array::index_array(index_shape, std::vector<std::int32_t>);
template index_array::index_array(index_shape, std::vector<std::uint32_t>);
template index_array::index_array(index_shape, std::vector<std::int64_t>);

std::optional<index_array> index_array::open(const std::filesystem::path& npy, index_shape shape) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(npy, ignored))
    return std::nullopt;
  index_array out;
  out.file_ = mapped_file(npy);
  const auto bytes = out.file_.bytes();
  if (auto& rows = shape.extents.front(); rows < 0) {
    rows = 1;
    const auto header = shape.npy_header().size(), each = shape.bytes();
    rows = bytes.size() < header ? 0 : std::int64_t((bytes.size() - header) / each);
  }
  const auto header = shape.npy_header();
  if (bytes.size() != header.size() + shape.bytes()
      || std::memcmp(bytes.data(), header.data(), header.size()) != 0)
    return std::nullopt;
  out.data_ = bytes.subspan(header.size());
  out.width_ = width_of(shape.type);
  out.shape_ = std::move(shape);
  return out;
}

void index_array::save(const std::filesystem::path& npy) const {
  file_writer out(npy);
  out.write(shape_.npy_header());
  constexpr std::size_t piece = std::size_t{1} << 24;  // limits the buffer of the writer
  for (std::size_t at = 0; at < data_.size(); at += piece)
    out.write(data_.data() + at, std::min(piece, data_.size() - at));
  out.commit();
}

std::int64_t index_array::operator[](std::size_t i) const {
  ensure(i < size(), "INDEX-1: only elements that exist are read");
  const auto read = [this, at = data_.data() + i * width_](auto value) {
    std::memcpy(&value, at, sizeof value);
    file_.require_intact();
    return static_cast<std::int64_t>(value);
  };
  switch (shape_.type) {
    case index_type::i32:
      return read(std::int32_t{});
    case index_type::u32:
      return read(std::uint32_t{});
    case index_type::i64:
      break;
  }
  return read(std::int64_t{});
}

std::string index_array::digest() const {
  const auto out = to_string(digester().add(data_.data(), data_.size()).result());
  file_.require_intact();
  return out;
}

}  // namespace troupe::runtime
