#include "runtime/checkpoint/gguf.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/waiting.hpp"

#include <limits>

namespace troupe::runtime {
namespace {

constexpr std::size_t alignment = 32;  // of files without "general.alignment"

std::size_t aligned(std::size_t x) {
  return (x + alignment - 1) / alignment * alignment;
}

/// The bytes of the metadata and the list of tensors.
class gguf_header {
 public:
  template <class T>
  void number(T x) {
    text_.append(reinterpret_cast<const char*>(&x), sizeof x);
  }
  void raw(std::string_view x) { text_.append(x); }
  void string(const std::string& x) {
    number(std::uint64_t(x.size()));
    raw(x);
  }

  void value(gguf_type type, gguf_type element, const nlohmann::json& x) {
    switch (type) {
      case gguf_type::u8:
        return number(x.get<std::uint8_t>());
      case gguf_type::i8:
        return number(x.get<std::int8_t>());
      case gguf_type::u16:
        return number(x.get<std::uint16_t>());
      case gguf_type::i16:
        return number(x.get<std::int16_t>());
      case gguf_type::u32:
        return number(x.get<std::uint32_t>());
      case gguf_type::i32:
        return number(x.get<std::int32_t>());
      case gguf_type::u64:
        return number(x.get<std::uint64_t>());
      case gguf_type::i64:
        return number(x.get<std::int64_t>());
      case gguf_type::f32:
        return number(x.get<float>());
      case gguf_type::f64:
        return number(x.get<double>());
      case gguf_type::boolean:
        return number(std::uint8_t(x.get<bool>()));
      case gguf_type::string:
        return string(x.get_ref<const std::string&>());
      case gguf_type::array:
        break;
    }
    ensure(element != gguf_type::array, "GGUF-6: arrays of arrays are only read");
    number(std::uint32_t(element));
    number(std::uint64_t(x.size()));
    for (const auto& one : x)
      value(element, element, one);
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

std::uint64_t gguf_bytes(block_type type, const shape& extents) {
  const auto& format = format_of(type);
  const auto row = extents.rank() == 0 ? 1 : extents[extents.rank() - 1];
  ensure(row % format.elements == 0, "GGUF-2: blocks are converted whole");
  return std::uint64_t(extents.size() / format.elements) * format.bytes;
}

gguf_writer::gguf_writer(const std::filesystem::path& path,
                         const gguf_metadata& metadata,
                         std::vector<gguf_tensor> tensors)
    : out_(path), tensors_(std::move(tensors)) {
  gguf_header header;
  header.raw("GGUF");
  header.number(std::uint32_t{3});
  header.number(std::uint64_t(tensors_.size()));
  header.number(std::uint64_t(metadata.size()));
  for (const auto& [key, x] : metadata) {
    header.string(key);
    header.number(std::uint32_t(x.type));
    header.value(x.type, x.element, x.value);
  }
  std::size_t offset = 0;
  for (auto& x : tensors_) {
    x.bytes = std::size_t(gguf_bytes(x.type, x.extents));
    x.offset = offset;
    offset = aligned(offset + x.bytes);
    header.string(x.name);
    header.number(std::uint32_t(x.extents.rank()));
    for (int i = x.extents.rank(); i > 0; --i)
      header.number(std::uint64_t(x.extents[i - 1]));
    header.number(std::uint32_t(x.type));
    header.number(std::uint64_t(x.offset));
  }
  out_.write(header.text());
  pad();
}

void gguf_writer::pad() {
  constexpr char zeros[alignment] = {};
  out_.write(zeros, aligned(out_.size()) - out_.size());
}

void gguf_writer::add(std::span<const float> rows) {
  ensure(
      at_ < tensors_.size() && std::int64_t(rows.size()) <= tensors_[at_].extents.size() - written_,
      "GGUF-4: a file gets exactly the rows of its tensors");
  const auto& x = tensors_[at_];
  blocks_.resize(std::size_t(gguf_bytes(x.type, {std::int64_t(rows.size())})));
  quantise(x.type, rows, blocks_.data(), "tensor '" + x.name + "'");
  out_.write(blocks_.data(), blocks_.size());
  mark_progress();
  written_ += std::int64_t(rows.size());
  if (written_ < x.extents.size())
    return;
  pad();
  ++at_;
  written_ = 0;
}

void gguf_writer::commit() {
  ensure(at_ == tensors_.size(), "GGUF-4: a file gets exactly the rows of its tensors");
  out_.commit();
}

}  // namespace troupe::runtime
