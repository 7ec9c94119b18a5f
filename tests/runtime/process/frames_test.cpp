#include "runtime/process/frames.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::runtime;

TEST_CASE("texts are decoded from bytes in pieces of any size", "[process]") {
  const std::string all = frame_of("one") + frame_of("two and more") + frame_of("3");
  for (std::size_t piece = 1; piece <= all.size(); ++piece) {
    frame_reader reader;
    std::vector<std::string> out;
    for (std::size_t at = 0; at < all.size(); at += piece) {
      reader.feed(std::string_view(all).substr(at, piece));
      while (const auto next = reader.next())
        out.push_back(*next);
    }
    CHECK(out == std::vector<std::string>{"one", "two and more", "3"});
    CHECK_FALSE(reader.is_amid());
  }
}

TEST_CASE("an impossible length is refused before its bytes arrive", "[process]") {
  for (const auto& length : {std::string("\xff\xff\xff\xff", 4),
                             std::string(4, '\0'),
                             std::string("\x00\x10\x00\x01", 4)}) {
    frame_reader reader;
    reader.feed(length);
    CHECK_THROWS_AS(reader.next(), input_error);
  }
  frame_reader reader;
  reader.feed(std::string("\x00\x10\x00\x00", 4));
  CHECK_FALSE(reader.next());
  CHECK(reader.is_amid());
  CHECK_THROWS_AS(frame_of(std::string(longest_frame + 1, 'x')), input_error);
  CHECK_THROWS_AS(frame_of(""), input_error);
}
