#include "runtime/data/byte_source.hpp"

#include "runtime/core/error.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

class mapped_bytes final : public byte_source {
 public:
  explicit mapped_bytes(const std::filesystem::path& path) : file_(path) {}

  std::uint64_t size() const override { return file_.bytes().size(); }
  std::span<const std::byte> bytes(std::uint64_t offset,
                                   std::size_t count,
                                   std::vector<std::byte>&) const override {
    return file_.bytes().subspan(std::size_t(offset), count);
  }
  void require_intact() const override { file_.require_intact(); }

 private:
  mapped_file file_;
};

class object_bytes final : public byte_source {
 public:
  object_bytes(object_url object, object_store store)
      : object_(std::move(object)), store_(std::move(store)), size_(store_.facts(object_).size) {}

  std::uint64_t size() const override { return size_; }
  std::span<const std::byte> bytes(std::uint64_t offset,
                                   std::size_t count,
                                   std::vector<std::byte>& scratch) const override {
    scratch.resize(count);
    store_.read(object_, offset, scratch);
    return scratch;
  }
  void expect(std::uint64_t offset, std::size_t count) const override {
    store_.expect(object_, offset, count);
  }
  void require_intact() const override {}  // object_store checks every response

 private:
  object_url object_;
  object_store store_;
  std::uint64_t size_;
};

}  // namespace

std::unique_ptr<const byte_source> open_bytes(const std::filesystem::path& path,
                                              const object_access& objects) {
  if (is_object_url(path.string()))
    return std::make_unique<object_bytes>(parse_object_url(path.string()), objects.store);
  return std::make_unique<mapped_bytes>(path);
}

mapped_file open_index(const std::filesystem::path& path, const object_access& objects) {
  if (!is_object_url(path.string()))
    return mapped_file(path);
  const auto object = parse_object_url(path.string());
  if (!objects.cache)
    throw input_error(
        "cannot open '{}': the index of a data set in an object store needs a local folder; set "
        "`data.object_cache`",
        path.string());
  return objects.store.kept(object, *objects.cache);
}

}  // namespace troupe::runtime
