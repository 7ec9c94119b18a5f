#include "runtime/data/indexed_dataset.hpp"

#include "tests/runtime/data/golden.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/disk_faults.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

using documents = std::vector<std::vector<std::int32_t>>;

/// Writes the given bytes as .bin and .idx.
void write_raw(const std::filesystem::path& prefix, std::string_view idx, std::string_view bin) {
  write_text(idx_path(prefix), idx);
  write_text(bin_path(prefix), bin);
}

/// Reads all sequences.
std::int64_t read_all(const indexed_dataset& data) {
  std::int64_t sum = 0;
  for (std::int64_t s = 0; s < data.sequences(); ++s) {
    std::vector<std::int32_t> out(static_cast<std::size_t>(data.length(s)));
    data.get(s, 0, out);
    for (const auto id : out)
      sum += id;
    sum += static_cast<std::int64_t>(data.place(s).size());
  }
  for (std::int64_t d = 0; d <= data.documents(); ++d)
    sum += data.document_begin(d);
  return sum;
}

template <class T>
void patch(std::string& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

}  // namespace

TEST_CASE("the published 102 bytes of an index are written", "[data]") {
  const scratch_folder folder;
  write_dataset(folder / "x", 1000, {{3}, {5}, {2}});
  CHECK(hex(read_text(folder / "x.idx"))
        == "4d4d494449445800000100000000000000080300000000000000"
           "0400000000000000030000000500000002000000000000000000"
           "0000060000000000000010000000000000000000000000000000"
           "010000000000000002000000000000000300000000000000");
}

TEST_CASE("a data set that is truncated while open is reported, and not read as zeros", "[data]") {
  const scratch_folder folder;
  write_dataset(folder / "x", 1000, {{3, 4, 5}, {6, 7}});
  std::vector<std::int32_t> out(2), expected(2);
  indexed_dataset(folder / "x").get(1, 0, expected);
  for (const char* const extension : {".bin", ".idx"}) {
    const indexed_dataset data(folder / "x");
    const auto path = (folder / "x").string() + extension;
    const auto whole = read_text(path);
    for (const std::size_t left : {whole.size() - 1, std::size_t{0}}) {
      std::filesystem::resize_file(path, left);
      CHECK_THROWS_AS(data.get(0, 0, out), input_error);
      CHECK_THROWS_WITH(data.get(1, 0, out),
                        ContainsSubstring(path) && ContainsSubstring("cut short"));
    }
    write_text(path, whole);
  }
  indexed_dataset(folder / "x").get(1, 0, out);
  CHECK(out == expected);
}

TEST_CASE("a read error of a data set is reported", "[data]") {
  const scratch_folder folder;
  write_dataset(folder / "x", 1000, {{3, 4, 5}});
  std::vector<std::int32_t> out(3);
  {
    const planted_disk_fault sector(
        {.below = folder.path().string(), .nth = 1, .error = EIO, .calls = "mmap"});
    CHECK_THROWS_WITH(indexed_dataset(folder / "x"), ContainsSubstring("Input/output error"));
  }
  const planted_disk_fault sector(
      {.below = folder.path().string(), .nth = 2, .error = EIO, .calls = "mmap"});
  const indexed_dataset data(folder / "x");
  CHECK_THROWS_WITH(data.get(0, 0, out),
                    ContainsSubstring("x.bin") && ContainsSubstring("Input/output error"));
}

TEST_CASE("indexed data sets have the bytes that megatron-core writes", "[data][golden]") {
  for (const auto& c : golden()["files"]) {
    const scratch_folder folder;
    write_dataset(folder / "x", c["vocabulary"], c["documents"].get<documents>());
    CHECK(hex(read_text(folder / "x.idx")) == c["idx"]);
    CHECK(hex(read_text(folder / "x.bin")) == c["bin"]);
  }
}

TEST_CASE("any part of a sequence can be read", "[data]") {
  const scratch_folder folder;
  for (const std::int64_t vocabulary : {300, 70'000}) {
    write_dataset(folder / "x", vocabulary, {{2}, {}, {4, 1}});
    const indexed_dataset data(folder / "x");
    CHECK(data.type() == (vocabulary == 300 ? token_type::u16 : token_type::i32));
    REQUIRE(data.sequences() == 3);
    CHECK(data.documents() == 3);
    CHECK(data.tokens() == 7);
    CHECK(data.document_begin(1) == 1);
    CHECK(data.document_begin(2) == 1);
    std::vector<std::int32_t> out(2);
    data.get(1, 1, out);
    CHECK(out == std::vector{golden_token(1, 1, vocabulary), golden_token(1, 2, vocabulary)});
    data.get(1, 4, std::span(out).first(0));
    CHECK_BREAKS("SOURCE-1", data.get(1, 3, out));
    CHECK_BREAKS("SOURCE-1", data.get(1, -1, out));
    CHECK_BREAKS("SOURCE-1", data.get(3, 0, out));
    CHECK(data.place(0)
          == fmt::format("'{}.bin', document 0 (sequence 0)", data.prefix().string()));
    CHECK_THAT(data.place(2), ContainsSubstring("document 2 (sequence 2)"));
  }
}

TEST_CASE("every integer type widens to 32 bits", "[data]") {
  CHECK_BREAKS("SOURCE-2", to_string(token_type(99)));
  const scratch_folder folder;
  write_dataset(folder / "x", 300, {{1}});
  auto idx = read_text(folder / "x.idx");
  const std::pair<token_type, std::string> stored[]
      = {{token_type::u8, "\xfe"},
         {token_type::i8, "\xfe"},
         {token_type::i16, "\xfe\xff"},
         {token_type::u16, "\xfe\xff"},
         {token_type::i32, "\xfe\xff\xff\xff"},
         {token_type::i64, "\xfe\xff\xff\xff\xff\xff\xff\xff"}};
  const std::int32_t expected[] = {254, -2, -2, 65534, -2, -2};
  for (std::size_t i = 0; i < 6; ++i) {
    patch(idx, 17, stored[i].first);
    write_raw(folder / "y", idx, stored[i].second);
    std::int32_t id = 0;
    indexed_dataset(folder / "y").get(0, 0, {&id, 1});
    CHECK(id == expected[i]);
  }
  write_raw(folder / "y", idx, std::string("\0\0\0\0\1\0\0\0", 8));
  std::int32_t id = 0;
  CHECK_THROWS_WITH(
      indexed_dataset(folder / "y").get(0, 0, {&id, 1}),
      ContainsSubstring("4294967296 does not fit") && ContainsSubstring("document 0"));
}

TEST_CASE("an index truncated at any byte is refused", "[data]") {
  const scratch_folder folder;
  write_dataset(folder / "x", 300, {{3}, {5, 2}, {2}});
  const auto idx = read_text(folder / "x.idx"), bin = read_text(folder / "x.bin");
  for (std::size_t size = 0; size < idx.size(); ++size) {
    write_raw(folder / "y", idx.substr(0, size), bin);
    CHECK_THROWS_AS(indexed_dataset(folder / "y"), input_error);
  }
  for (std::size_t size = 0; size < bin.size(); ++size) {
    write_raw(folder / "y", idx, bin.substr(0, size));
    CHECK_THROWS_WITH(indexed_dataset(folder / "y"),
                      ContainsSubstring("do not match") && ContainsSubstring("y"));
  }
}

TEST_CASE("an index with any byte changed is refused or read within its bounds", "[data]") {
  const scratch_folder folder;
  write_dataset(folder / "x", 300, {{3}, {5, 2}, {2}});
  const auto idx = read_text(folder / "x.idx"), bin = read_text(folder / "x.bin");
  int refused = 0, read = 0;
  for (std::size_t at = 0; at < idx.size(); ++at)
    for (const int flip : {0x01, 0x02, 0x0b, 0x80, 0xff}) {
      auto changed = idx;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      write_raw(folder / "y", changed, bin);
      try {
        read_all(indexed_dataset(folder / "y"));
        ++read;
      } catch (const input_error& e) {
        CHECK_THAT(e.what(), ContainsSubstring("y"));
        ++refused;
      }
    }
  // Accepted changes: a document with another start, and uint16 that became int16.
  CHECK(read > 0);
  CHECK(read < 10);
  CHECK(read + refused == 5 * int(idx.size()));
}

TEST_CASE("a damaged data set is refused with the fault and a remedy", "[data]") {
  const scratch_folder folder;
  write_dataset(folder / "x", 300, {{3}, {5, 2}});
  const auto good = read_text(folder / "x.idx"), bin = read_text(folder / "x.bin");
  // 34 lengths 3 x i32, 46 pointers 3 x i64, 70 document indices 3 x i64
  const auto refusal = [&](std::size_t at, auto value) {
    auto idx = good;
    patch(idx, at, value);
    write_raw(folder / "y", idx, bin);
    try {
      const indexed_dataset data(folder / "y");
    } catch (const input_error& e) {
      CHECK_THAT(e.what(), ContainsSubstring((folder / "y").string()));
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  CHECK_THAT(refusal(0, 'm'), ContainsSubstring("does not start with MMIDIDX"));
  CHECK_THAT(refusal(9, std::uint64_t{2}), ContainsSubstring("version 2"));
  CHECK_THAT(refusal(17, std::uint8_t{7}), ContainsSubstring("floating point"));
  CHECK_THAT(refusal(17, std::uint8_t{9}), ContainsSubstring("code 9"));
  CHECK_THAT(refusal(17, std::uint8_t{4}), ContainsSubstring("starts at byte 6"));
  CHECK_THAT(refusal(18, std::uint64_t{4}), ContainsSubstring("too few for the 4 sequences"));
  CHECK_THAT(refusal(18, ~std::uint64_t{0}), ContainsSubstring("too few"));
  CHECK_THAT(refusal(26, std::uint64_t{1} << 61), ContainsSubstring("too few"));
  CHECK_THAT(refusal(26, std::uint64_t{2}), ContainsSubstring("its counts announce"));
  CHECK_THAT(refusal(34, std::int32_t{-3}), ContainsSubstring("sequence 0 has length -3"));
  CHECK_THAT(refusal(54, std::int64_t{8}), ContainsSubstring("sequence 1 starts at byte 8"));
  CHECK_THAT(refusal(62, std::int64_t{1} << 40), ContainsSubstring("sequence 2 starts at byte"));
  CHECK_THAT(refusal(42, std::int32_t{3}), ContainsSubstring("do not match"));
  CHECK_THAT(refusal(70, std::int64_t{1}), ContainsSubstring("document 0 starts at sequence 1"));
  CHECK_THAT(refusal(78, std::int64_t{-1}), ContainsSubstring("document 1 starts at sequence -1"));
  CHECK_THAT(refusal(78, std::int64_t{4}), ContainsSubstring("document 1 starts at sequence 4"));
  CHECK_THAT(refusal(86, std::int64_t{2}), ContainsSubstring("ends at sequence 2 of 3"));
  CHECK(refusal(78, std::int64_t{2}) == "accepted");  // another split, but a valid one

  write_raw(folder / "y", good + std::string(3, '\0'), bin);
  CHECK_THROWS_WITH(indexed_dataset(folder / "y"), ContainsSubstring("images and text"));
}

TEST_CASE("a missing half of a data set is named", "[data]") {
  const scratch_folder folder;
  write_dataset(folder / "x", 300, {{3}});
  CHECK_THROWS_WITH(indexed_dataset(folder / "none"), ContainsSubstring("none.idx"));
  CHECK_THROWS_WITH(indexed_dataset(folder / "x.bin"), ContainsSubstring("without .bin or .idx"));
  std::filesystem::remove(folder / "x.bin");
  CHECK_THROWS_WITH(indexed_dataset(folder / "x"), ContainsSubstring("there is no"));
}

TEST_CASE("an unfinished builder leaves no files", "[data]") {
  const scratch_folder folder;
  {
    indexed_dataset_builder out(folder / "x", 300);
    out.add_sequence(std::vector<std::int32_t>{1, 2, 299});
    CHECK_THROWS_WITH(out.add_sequence(std::vector<std::int32_t>{1, 300}),
                      ContainsSubstring("id 300 in sequence 1"));
    CHECK_THROWS_AS(out.add_sequence(std::vector<std::int32_t>{-1}), input_error);
    CHECK_THROWS_WITH(out.finish(), ContainsSubstring("BUILDER-1"));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK_THROWS_AS(indexed_dataset_builder(folder / "x", 0), input_error);
  CHECK_THROWS_AS(indexed_dataset_builder(folder / "no" / "x", 10), io_error);
}

TEST_CASE("a data set without documents can be written and read", "[data]") {
  const scratch_folder folder;
  write_dataset(folder / "x", 300, {});
  const indexed_dataset data(folder / "x");
  CHECK(data.sequences() == 0);
  CHECK(data.documents() == 0);
}
