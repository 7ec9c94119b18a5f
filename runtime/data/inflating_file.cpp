#include "runtime/data/inflating_file.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>
#include <zlib.h>
#include <zstd.h>

namespace troupe::runtime {

/// Decompresses the bytes of the file.
struct inflating_file::stream {
  explicit stream(file_reader& from) : file(from), input(std::size_t{1} << 17) {}
  virtual ~stream() = default;
  virtual std::size_t read(char* into, std::size_t size) = 0;

 protected:
  /// Refills the empty input buffer from the file. False at the end.
  bool fill() {
    at = 0;
    filled = file.read(input.data(), input.size());
    return filled > 0;
  }
  std::string_view left() const { return {input.data() + at, filled - at}; }

  [[noreturn]] void refuse(const std::string& what, const char* advice) const {
    throw input_error("cannot inflate '{}' at byte {}: {}; {}",
                      file.path().string(),
                      file.at() - left().size(),
                      what,
                      advice);
  }
  [[noreturn]] void refuse_cut(const char* program) const {
    refuse("it ends in the middle of its compressed data",
           fmt::format("it is truncated: copy or download it again, and try `{} -t` on it", program)
               .c_str());
  }

  file_reader& file;
  std::vector<char> input;
  std::size_t filled = 0, at = 0;
};

namespace {

struct gzip_stream final : inflating_file::stream {
  explicit gzip_stream(file_reader& from) : stream(from) {
    if (inflateInit2(&state_, 15 + 16) != Z_OK)  // 15: the largest window; 16: gzip headers
      throw std::bad_alloc();
  }
  ~gzip_stream() override { inflateEnd(&state_); }

  std::size_t read(char* into, std::size_t size) override {
    state_.next_out = reinterpret_cast<Bytef*>(into);
    state_.avail_out = uInt(std::min<std::size_t>(size, 1U << 30));
    const auto room = state_.avail_out;
    while (state_.avail_out == room && size > 0) {
      if (left().empty() && !fill()) {
        if (open_)
          refuse_cut("gzip");
        return 0;
      }
      if (!open_ && !begin_member())
        continue;
      some();
    }
    return room - state_.avail_out;
  }

 private:
  /// Begins the next member. False for zeros that pad the file after its last member, as on tapes.
  bool begin_member() {
    if (members_ > 0 && left().front() == '\0') {
      const auto end = std::find_if(left().begin(), left().end(), [](char c) { return c != 0; });
      at += std::size_t(end - left().begin());
      padded_ = true;
      return false;
    }
    if (padded_ || left().front() != '\x1f')
      refuse("the bytes after its compressed data are not gzip",
             "remove it, or download the file again");
    inflateReset(&state_);
    open_ = true;
    return true;
  }

  void some() {
    state_.next_in = reinterpret_cast<Bytef*>(input.data() + at);
    state_.avail_in = uInt(left().size());
    const int status = inflate(&state_, Z_NO_FLUSH);
    at = filled - state_.avail_in;
    if (status == Z_STREAM_END) {
      open_ = false;
      ++members_;
    } else if (status == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      refuse(fmt::format("its compressed data are damaged ({})",
                         state_.msg != nullptr ? state_.msg : zError(status)),
             "copy or download it again, and try `gzip -t` on it");
    }
  }

  z_stream state_ = {};
  bool open_ = false;  ///< inside a member
  bool padded_ = false;
  std::uint64_t members_ = 0;
};

struct zstd_stream final : inflating_file::stream {
  explicit zstd_stream(file_reader& from) : stream(from), state_(ZSTD_createDStream()) {
    if (state_ == nullptr)
      throw std::bad_alloc();
    ZSTD_DCtx_setParameter(state_, ZSTD_d_windowLogMax, 27);
  }
  ~zstd_stream() override { ZSTD_freeDStream(state_); }

  std::size_t read(char* into, std::size_t size) override {
    ZSTD_outBuffer out = {into, size, 0};
    while (out.pos == 0 && size > 0) {
      // The decoder may still hold output that did not fit; then it needs no input.
      if (left().empty() && !full_ && !fill()) {
        if (open_)
          refuse_cut("zstd");
        return 0;
      }
      ZSTD_inBuffer in = {input.data(), filled, at};
      const auto status = ZSTD_decompressStream(state_, &out, &in);
      if (ZSTD_isError(status))
        refuse_damaged(status);
      at = in.pos;
      open_ = status != 0;
      full_ = open_ && out.pos == size;
    }
    return out.pos;
  }

 private:
  [[noreturn]] void refuse_damaged(std::size_t status) const {
    const std::string what = ZSTD_getErrorName(status);
    if (what.find("memory") != std::string::npos)
      refuse(what + ": its window is above 128 MB",
             "compress it again with a window of at most 128 MB, as zstd does by default");
    refuse("its compressed data are damaged (" + what + ")",
           "copy or download it again, and try `zstd -t` on it");
  }

  ZSTD_DStream* state_;
  bool open_ = false;  ///< inside a frame
  bool full_ = false;
};

constexpr std::size_t compared_bytes = 6;  // the longest magic

/// The first bytes of the file, at most compared_bytes; rewinds it.
std::string first_bytes(file_reader& file) {
  std::array<char, compared_bytes> first = {};
  std::size_t size = 0;
  while (size < first.size())
    if (const auto n = file.read(first.data() + size, first.size() - size))
      size += n;
    else
      break;
  file.seek(0);
  return {first.data(), size};
}

bool begins_zstd(std::string_view x) {
  // A frame, or a skippable frame, which parallel compressors write first.
  return x.starts_with("\x28\xb5\x2f\xfd")
         || (x.size() >= 4 && (x[0] & 0xf0) == 0x50 && x.substr(1, 3) == "\x2a\x4d\x18");
}

bool named_compressed(const std::filesystem::path& path) {
  return path.extension() == ".gz" || path.extension() == ".zst";
}

void refuse_others(std::string_view first, const std::filesystem::path& path) {
  using namespace std::string_view_literals;
  // Text may begin with "PAR1". Parquet has the first field of a Thrift structure after it.
  if (first.starts_with("PAR1\x15"))
    throw input_error(
        "cannot read '{0}': it is Parquet, but only text and JSON are supported; convert it: "
        "duckdb -c \"COPY (FROM '{0}') TO '{1}' (FORMAT json)\"",
        path.string(),
        path.filename().replace_extension(".jsonl").string());
  constexpr std::pair<std::string_view, const char*> others[] = {{"\xfd\x37zXZ\0"sv, "xz"},
                                                                 {"\x04\x22\x4d\x18"sv, "lz4"},
                                                                 {"PK\x03\x04"sv, "zip"},
                                                                 {"BZh"sv, "bzip2"}};
  for (const auto& [magic, name] : others)
    // Text may begin with "BZh". bzip2 has a digit and the magic of a block after it.
    if (first.starts_with(magic)
        && (magic != "BZh" || (first.size() == compared_bytes && first.ends_with("1A"))))
      throw input_error(
          "cannot read '{}': it is compressed by {}, but only gzip and Zstandard are supported; "
          "unpack it, or compress it by zstd",
          path.string(),
          name);
}

}  // namespace

inflating_file::inflating_file(const std::filesystem::path& path) : file_(path) {
  const auto first = first_bytes(file_);
  refuse_others(first, path);
  if (first.starts_with("\x1f\x8b"))
    stream_ = std::make_unique<gzip_stream>(file_);
  else if (begins_zstd(first))
    stream_ = std::make_unique<zstd_stream>(file_);
  else if (named_compressed(path) && first.size() < 4)
    throw input_error(
        "cannot inflate '{}': it ends within its first bytes; it is truncated: copy or download it "
        "again",
        path.string());
}

inflating_file::~inflating_file() = default;

std::size_t inflating_file::read(char* into, std::size_t size) {
  return stream_ ? stream_->read(into, size) : file_.read(into, size);
}

void inflating_file::skip(std::uint64_t bytes) {
  if (!stream_)
    return file_.seek(file_.at() + bytes);
  std::vector<char> away(std::size_t(std::min<std::uint64_t>(bytes, 1U << 17)));
  while (bytes > 0) {
    const auto n = read(away.data(), std::size_t(std::min<std::uint64_t>(bytes, away.size())));
    if (n == 0)
      throw input_error("cannot read '{}': it ends {} bytes before the position to resume at",
                        file_.path().string(),
                        bytes);
    bytes -= n;
  }
}

bool inflating_file::compressed() const {
  return stream_ != nullptr;
}

std::uint64_t inflating_file::taken() const {
  return file_.at();
}

std::uint64_t inflating_file::size() const {
  return file_.size();
}

std::string inflated_text(const std::filesystem::path& path) {
  inflating_file from(path);
  std::string out;
  for (std::size_t got = 1; got > 0;) {
    const auto before = out.size();
    out.resize(before + (std::size_t{1} << 17));
    got = from.read(out.data() + before, out.size() - before);
    out.resize(before + got);
  }
  return out;
}

std::filesystem::path without_compression(const std::filesystem::path& path) {
  return named_compressed(path) ? std::filesystem::path(path).replace_extension() : path;
}

}  // namespace troupe::runtime
