#include "runtime/checkpoint/safetensors.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The bytes of a file with this header and `body` bytes of elements.
std::string file_with(const std::string& header, std::size_t body) {
  const std::uint64_t size = header.size();
  std::string out(sizeof size, '\0');
  std::memcpy(out.data(), &size, sizeof size);
  return out + header + std::string(body, '\1');
}

/// The error of the reader; empty if it accepts these bytes.
std::string refusal(const troupe::tests::scratch_folder& folder, const std::string& bytes) {
  // Without fsync: there are thousands of files.
  std::ofstream(folder / "x.safetensors", std::ios::binary) << bytes;
  try {
    const safetensors_file file(folder / "x.safetensors");
    for (const auto& x : file.tensors())
      hash64(file.bytes(x).data(), x.bytes);  // accepted bytes can be read
    return "";
  } catch (const input_error& failure) {
    return failure.what();
  }
}

std::string small_file(const troupe::tests::scratch_folder& folder) {
  const float a[] = {1, 2, 3, 4, 5, 6};
  const std::uint64_t b[] = {7};
  const std::uint16_t c[] = {0x3f80, 0xc000};
  const shard_to_write tensors[] = {whole_tensor("a", stored_type::f32, {2, 3}, a),
                                    whole_tensor("b", stored_type::u64, {}, b),
                                    whole_tensor("c.weight", stored_type::bf16, {2}, c),
                                    whole_tensor("empty", stored_type::f32, {0, 5}, nullptr)};
  const auto done = write_safetensors(folder / "small.safetensors", tensors, {{"format", "pt"}});
  auto bytes = read_text(folder / "small.safetensors");
  CHECK(done.bytes == bytes.size());
  sha256 hash;
  hash.add(bytes.data(), bytes.size());
  CHECK(done.sha256 == hash.hex());
  CHECK(done.xxh3.at(0) == to_string(digester().add(a, sizeof a).result()));
  return bytes;
}

}  // namespace

TEST_CASE("tensors survive a round trip in order", "[checkpoint]") {
  const troupe::tests::scratch_folder folder;
  small_file(folder);
  const safetensors_file file(folder / "small.safetensors");
  CHECK(file.metadata().at("format") == "pt");
  REQUIRE(file.tensors().size() == 4);
  CHECK(file.tensors()[0].name == "a");
  CHECK(file.find("a")->extents == shape{2, 3});
  CHECK(file.find("a")->offset % 8 == 0);
  CHECK(file.find("b")->extents == shape{});
  CHECK(file.find("empty")->bytes == 0);
  CHECK(file.find("d") == nullptr);
  float two[2], all[2];
  file.read(*file.find("a"), 3, two);
  CHECK(two[0] == 4);
  CHECK(two[1] == 5);
  file.read(*file.find("c.weight"), 0, all);
  CHECK(all[0] == 1);
  CHECK(all[1] == -2);
  file.read(*file.find("empty"), 0, {});
  CHECK_BREAKS("SAFETENSORS-2", file.read(*file.find("a"), 5, two));
  float one[1];
  CHECK_THROWS_WITH(file.read(*file.find("b"), 0, one),
                    ContainsSubstring("'b'") && ContainsSubstring("U64"));
}

TEST_CASE("an invalid type has no name and size, and integers are not floats", "[checkpoint]") {
  CHECK_BREAKS("STORED-1", size_of(stored_type(99)));
  const std::byte bytes[4] = {};
  float one[1];
  CHECK_BREAKS("STORED-2", to_f32(stored_type::i32, bytes, one));
}

TEST_CASE("the bytes of a file follow the format", "[checkpoint]") {
  const troupe::tests::scratch_folder folder;
  const std::uint16_t x[] = {0x3c00};
  const shard_to_write tensors[] = {whole_tensor("x", stored_type::f16, {1}, x)};
  write_safetensors(folder / "x", tensors);
  const std::string header = R"({"x":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})";
  CHECK(header.size() == 54);
  CHECK(read_text(folder / "x")
        == std::string("\x38\0\0\0\0\0\0\0", 8) + header + "  " + std::string("\0\x3c", 2));
  write_safetensors(folder / "none", {});
  CHECK(read_text(folder / "none") == std::string("\x08\0\0\0\0\0\0\0", 8) + "{}      ");
  CHECK(safetensors_file(folder / "none").tensors().empty());
}

TEST_CASE("half floats are converted to floats of the same value", "[checkpoint]") {
  const std::uint16_t in[]
      = {0x0000, 0x8000, 0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x83ff, 0x3555};
  const float expected[] = {0, -0.0f, 1, -2, 65504, 0x1p-14f, 0x1p-24f, -0x1.ff8p-15f, 0x1.554p-2f};
  float out[std::size(in)];
  to_f32(stored_type::f16, reinterpret_cast<const std::byte*>(in), out);
  CHECK(std::memcmp(out, expected, sizeof out) == 0);
  const std::uint16_t special[] = {0x7c00, 0xfc00, 0x7e00};
  to_f32(stored_type::f16, reinterpret_cast<const std::byte*>(special), std::span(out, 3));
  CHECK(out[0] == std::numeric_limits<float>::infinity());
  CHECK(out[1] == -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(out[2]));
}

TEST_CASE("elements can start at an odd byte", "[checkpoint]") {
  const troupe::tests::scratch_folder folder;
  const auto bytes = file_with(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   )", 8);
  REQUIRE((bytes.size() - 8) % 4 != 0);
  write_text(folder / "x", bytes);
  const safetensors_file file(folder / "x");
  float out[2];
  file.read(*file.find("x"), 0, out);
  CHECK(out[0] == out[1]);
}

TEST_CASE("an invalid header is refused with the reason", "[checkpoint]") {
  const troupe::tests::scratch_folder folder;
  const auto tensor
      = [](const std::string& dtype, const std::string& extents, const std::string& offsets) {
          return R"({"dtype":")" + dtype + R"(","shape":)" + extents + R"(,"data_offsets":)"
                 + offsets + "}";
        };
  struct row {
    std::string header;
    std::size_t body;
    const char* expected;
  };
  const row rows[] = {
      {"[]", 0, "not a JSON object"},
      {"{", 0, "not JSON"},
      {R"({"x":1})", 0, "'dtype', 'shape' and 'data_offsets'"},
      {R"({"x":)" + tensor("F31", "[1]", "[0,4]") + "}", 4, "F31"},
      {R"({"x":)" + tensor("F32", "[1]", "[0,8]") + "}", 8, "needs 4 bytes"},
      {R"({"x":)" + tensor("F32", "[2]", "[0,8]") + "}", 4, "cut off"},
      {R"({"x":)" + tensor("F32", "[2]", "[8,0]") + "}", 8, "not inside"},
      {R"({"x":)" + tensor("F32", "[-1]", "[0,0]") + "}", 0, "extent"},
      {R"({"x":)" + tensor("F32", "[1.0]", "[0,4]") + "}", 4, "extent"},
      {R"({"x":)" + tensor("F32", "[1,1,1,1,1]", "[0,4]") + "}", 4, "at most 4"},
      {R"({"x":)" + tensor("F32", "[4294967296,4294967296]", "[0,0]") + "}", 0, "more elements"},
      {R"({"x":)" + tensor("F32", "[4611686018427387904,4,0]", "[0,0]") + "}", 0, "more elements"},
      {R"({"x":)" + tensor("F32", "[18446744073709551616]", "[0,0]") + "}", 0, "extent"},
      {R"({"x":)" + tensor("U8", "[1]", "[18446744073709551615,0]") + "}", 0, "not inside"},
      {R"({"x":)" + tensor("F32", "[1]", "[0,4]") + R"(,"x":)" + tensor("F32", "[1]", "[0,4]")
           + "}",
       4,
       "twice"},
      {R"({"x":)" + tensor("F32", "[1]", "[0,4]") + R"(,"y":)" + tensor("F32", "[1]", "[0,4]")
           + "}",
       4,
       "begin at byte"},
      {R"({"x":)" + tensor("F32", "[1]", "[4,8]") + "}", 8, "begin at byte"},
      {R"({"x":)" + tensor("F32", "[1]", "[0,4]") + "}", 5, "bytes after its last tensor"},
      {R"({"__metadata__":{"a":1}})", 0, "__metadata__"},
      {R"({"__metadata__":[]})", 0, "__metadata__"},
      {"{\"x\":" + std::string(100000, '['), 0, "deeper"},
      {"{\"\xff\":1}", 0, "not JSON"},
      {R"({"x":1e999})", 0, "number"},
  };
  for (const auto& [header, body, expected] : rows) {
    INFO(header.substr(0, 100));
    CHECK_THAT(refusal(folder, file_with(header, body)),
               ContainsSubstring(expected) && ContainsSubstring("x.safetensors"));
  }
  CHECK_THAT(refusal(folder, ""), ContainsSubstring("too few"));
  CHECK_THAT(refusal(folder, std::string(8, '\xff')), ContainsSubstring("cut off"));
}

TEST_CASE("a file truncated anywhere is refused", "[checkpoint]") {
  const troupe::tests::scratch_folder folder;
  const auto bytes = small_file(folder);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    if (refusal(folder, bytes.substr(0, size)).empty())
      FAIL_CHECK("accepted when cut off after byte " << size);
}

TEST_CASE("after any change of a byte of the header, the reader refuses or reads", "[checkpoint]") {
  const troupe::tests::scratch_folder folder;
  const auto bytes = small_file(folder);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::size_t refused = 0;
  for (std::size_t at = 0; at < 8 + header; ++at)
    for (const int flip : {0x01, 0x10, 0x80, 0xff}) {
      auto changed = bytes;
      changed[at] = char(changed[at] ^ flip);
      refused += refusal(folder, changed).empty() ? 0 : 1;
    }
  CHECK(refused > 8 + header);  // many flips only change a name or add a space
}
