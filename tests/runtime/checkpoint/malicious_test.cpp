// Malicious files, one test per attack.

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "tests/runtime/checkpoint/saved.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstring>
#include <fstream>
#include <limits>
#include <sys/stat.h>

using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

constexpr const char* largest = "18446744073709551615";  // 2^64 - 1

std::string bytes_of(std::uint64_t header_size, const std::string& header, std::size_t elements) {
  return std::string(reinterpret_cast<const char*>(&header_size), sizeof header_size) + header
         + std::string(elements, '\1');
}

std::string refusal_of_bytes(const std::string& bytes) {
  const scratch_folder folder;
  std::ofstream(folder / "x.safetensors", std::ios::binary) << bytes;
  try {
    const safetensors_file file(folder / "x.safetensors");
    for (const auto& x : file.tensors())
      hash64(file.bytes(x).data(), x.bytes);
    return "it was accepted";
  } catch (const input_error& failure) {
    return failure.what();
  }
}

std::string refusal(const std::string& header, std::size_t elements = 0) {
  return refusal_of_bytes(bytes_of(header.size(), header, elements));
}

std::string tensor(const std::string& name,
                   const std::string& dtype,
                   const std::string& extents,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + extents
         + "],\"data_offsets\":[" + offsets + "]}";
}

std::string sealed(std::string text) {
  constexpr std::size_t digits = 64, after = 4;
  const auto at = text.size() - digits - after;
  text.replace(at, digits, digits, '0');
  sha256 hash;
  hash.add(text.data(), text.size());
  return text.replace(at, digits, hash.hex());
}

/// The refusal of a checkpoint with a changed manifest and a correct hash.
std::string refusal_of_manifest(const std::string& from, const std::string& to) {
  const scratch_folder dir;
  const auto path = save(dir.path(), 1) / "manifest.json";
  auto text = read_text(path);
  const auto at = text.find(from);
  REQUIRE(at != text.npos);
  std::ofstream(path, std::ios::binary) << sealed(text.replace(at, from.size(), to));
  try {
    open_checkpoint(dir / "iter_0000001");
    return "it was accepted";
  } catch (const input_error& failure) {
    return failure.what();
  }
}

}  // namespace

TEST_CASE("a header that claims nearly 2 to the 64 bytes is refused", "[checkpoint][malicious]") {
  for (const auto size : {~0ULL, ~0ULL - 7, ~0ULL - 8, 1ULL << 63, (1ULL << 63) - 8, 1ULL << 40})
    CHECK_THAT(refusal_of_bytes(bytes_of(size, "{}", 0)), ContainsSubstring("cut off"));
}

TEST_CASE("a header longer than its file is refused", "[checkpoint][malicious]") {
  for (const std::uint64_t size : {3, 10, 1 << 20})
    CHECK_THAT(refusal_of_bytes(bytes_of(size, "{}", 0)), ContainsSubstring("2 follow"));
}

TEST_CASE("offsets near 2 to the 64 are refused", "[checkpoint][malicious]") {
  for (const std::string& offsets : {std::string("0,") + largest,
                                     std::string(largest) + "," + largest,
                                     std::string(largest) + ",3",
                                     std::string("18446744073709551612,18446744073709551616")})
    CHECK_THAT(refusal("{" + tensor("x", "F32", "1", offsets) + "}", 4),
               ContainsSubstring("data_offsets"));
}

TEST_CASE("extents with an overflowing product are refused", "[checkpoint][malicious]") {
  for (const std::string& extents : {std::string(largest),
                                     std::string("9223372036854775807,2"),
                                     std::string("4294967296,4294967296"),
                                     std::string("2147483648,2147483648,4"),
                                     std::string("0,9223372036854775807,9223372036854775807")})
    CHECK_THAT(refusal("{" + tensor("x", "F32", extents, "0,0") + "}"), ContainsSubstring("shape"));
}

TEST_CASE("tensors that overlap are refused", "[checkpoint][malicious]") {
  CHECK_THAT(
      refusal("{" + tensor("x", "F32", "2", "0,8") + "," + tensor("y", "F32", "1", "4,8") + "}", 8),
      ContainsSubstring("begin at byte"));
  CHECK_THAT(
      refusal("{" + tensor("x", "F32", "1", "0,4") + "," + tensor("y", "F32", "1", "0,4") + "}", 4),
      ContainsSubstring("begin at byte"));
}

TEST_CASE("gaps between tensors are refused", "[checkpoint][malicious]") {
  CHECK_THAT(
      refusal("{" + tensor("x", "U8", "1", "0,1") + "," + tensor("y", "U8", "1", "2,3") + "}", 3),
      ContainsSubstring("begin at byte"));
  CHECK_THAT(refusal("{" + tensor("x", "U8", "1", "0,1") + "}", 9),
             ContainsSubstring("bytes after its last tensor"));
}

TEST_CASE("a header that is nested a million deep is refused", "[checkpoint][malicious]") {
  const std::string deep(1000000, '[');
  CHECK_THAT(refusal("{\"x\":" + deep), ContainsSubstring("deeper"));
  std::string objects = "{\"x\":";
  for (int i = 0; i < 200000; ++i)
    objects += "{\"x\":";
  CHECK_THAT(refusal(objects), ContainsSubstring("deeper"));
}

TEST_CASE("a duplicate key is refused", "[checkpoint][malicious]") {
  const auto x = tensor("x", "U8", "1", "0,1");
  CHECK_THAT(refusal("{" + x + "," + x + "}", 1), ContainsSubstring("twice"));
  CHECK_THAT(refusal(R"({"x":{"dtype":"U8","dtype":"F32","shape":[1],"data_offsets":[0,1]}})", 1),
             ContainsSubstring("twice"));
  // One name, spelled in two ways.
  CHECK_THAT(refusal("{" + x + "," + tensor("\\u0078", "U8", "1", "1,2") + "}", 2),
             ContainsSubstring("twice"));
}

TEST_CASE("tensor names are not used as paths", "[checkpoint][malicious]") {
  const scratch_folder folder;
  const std::string header = "{" + tensor("../../etc/passwd", "U8", "1", "0,1") + ","
                             + tensor("a\\u0000b", "U8", "1", "1,2") + "}";
  std::ofstream(folder / "x", std::ios::binary) << bytes_of(header.size(), header, 2);
  const safetensors_file file(folder / "x");
  CHECK(file.find("../../etc/passwd") != nullptr);
  CHECK(file.find(std::string("a\0b", 3)) != nullptr);
  CHECK(file.find("a") == nullptr);
  CHECK(names_in(folder.path()) == names{"x"});
}

TEST_CASE("a tensor of size zero has no bytes, and cannot claim any", "[checkpoint][malicious]") {
  CHECK_THAT(refusal("{" + tensor("x", "F32", "0,7", "0,4") + "}", 4),
             ContainsSubstring("needs 0 bytes"));
  CHECK(refusal("{" + tensor("x", "F32", "0,7", "0,0") + "}") == "it was accepted");
}

TEST_CASE("negative and malformed numbers are refused", "[checkpoint][malicious]") {
  for (const char* extents :
       {"-1", "-9223372036854775808", "1.5", "1e2", "\"1\"", "null", "true", "[1]"})
    CHECK_THAT(refusal("{" + tensor("x", "F32", extents, "0,4") + "}", 4),
               ContainsSubstring("extent"));
  CHECK_THAT(refusal("{" + tensor("x", "F32", "1", "-4,0") + "}", 4),
             ContainsSubstring("data_offsets"));
}

TEST_CASE("a tensor with a thousand axes is refused", "[checkpoint][malicious]") {
  std::string ones = "1";
  for (int i = 1; i < 1000; ++i)
    ones += ",1";
  CHECK_THAT(refusal("{" + tensor("x", "F32", ones, "0,4") + "}", 4),
             ContainsSubstring("at most 4"));
}

TEST_CASE("an unknown type, or one with another size, is refused", "[checkpoint][malicious]") {
  for (const char* dtype : {"F128", "", "f32", "OBJECT", "F32 "})
    CHECK_THAT(refusal("{" + tensor("x", dtype, "1", "0,4") + "}", 4), ContainsSubstring("type"));
  CHECK_THAT(refusal("{" + tensor("x", "F64", "1", "0,4") + "}", 4),
             ContainsSubstring("needs 8 bytes"));
}

TEST_CASE("a header that is not UTF-8 is refused", "[checkpoint][malicious]") {
  for (const char* name : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\\ud800"})
    CHECK_THAT(refusal("{" + tensor(name, "U8", "1", "0,1") + "}", 1),
               ContainsSubstring("not JSON"));
}

TEST_CASE("a manifest that names a shard outside its folder is refused",
          "[checkpoint][malicious]") {
  const std::string shard = "model-00001-of-00001.safetensors";
  for (const char* elsewhere : {"../iter_0000001/model-00001-of-00001.safetensors",
                                "/etc/passwd",
                                "..",
                                ".",
                                "",
                                ".hidden",
                                "a\\\\b",
                                "a\\u0000b"})
    CHECK_THAT(refusal_of_manifest("\"" + shard + "\"", "\"" + std::string(elsewhere) + "\""),
               ContainsSubstring("the name of a file in the same folder"));
  CHECK_THAT(refusal_of_manifest(shard, "optimizer-00001-of-00001.safetensors"),
             ContainsSubstring("listed twice"));
  CHECK_THAT(refusal_of_manifest(shard, "gone.safetensors"), ContainsSubstring("gone.safetensors"));
}

TEST_CASE("a manifest that claims more elements than its shards have is refused",
          "[checkpoint][malicious]") {
  for (const char* number : {"1099511627776", "-8", "18446744073709551616", "1e3", "0"})
    CHECK(refusal_of_manifest("    8,\n", "    " + std::string(number) + ",\n")
          != "it was accepted");
}

TEST_CASE("a link, a FIFO or a folder as shard is read or refused without a wait",
          "[checkpoint][malicious]") {
  const scratch_folder dir;
  const auto shard = save(dir.path(), 1) / "model-00001-of-00001.safetensors";
  fs::rename(shard, dir / "elsewhere");
  fs::create_symlink(dir / "elsewhere", shard);
  CHECK(has_elements_of(dir / "iter_0000001", 1));  // a link of the user's own
  const auto refused = [&] { CHECK_THROWS_AS(open_checkpoint(dir / "iter_0000001"), input_error); };
  for (const char* target :
       {"/dev/zero", "/dev/null", "nowhere", "model-00001-of-00001.safetensors"}) {
    CAPTURE(target);
    fs::remove(shard);
    fs::create_symlink(target, shard);
    refused();
  }
  fs::remove(shard);
  REQUIRE(::mkfifo(shard.c_str(), 0600) == 0);
  refused();
  fs::remove(shard);
  fs::create_directory(shard);
  refused();
}

TEST_CASE("a link as folder of an iteration is not a checkpoint of this run",
          "[checkpoint][malicious]") {
  const scratch_folder dir, other;
  save(other.path(), 5);
  save(dir.path(), 1);
  fs::create_directory_symlink(other / "iter_0000005", dir / "iter_0000005");
  std::ofstream(dir / tracker) << "5\n";
  const auto found = latest_checkpoint(dir.path());
  CHECK(found.folder == dir / "iter_0000001");
  CHECK(found.warnings.size() == 2);
}
