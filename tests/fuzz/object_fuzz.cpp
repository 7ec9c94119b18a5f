// Fuzzes texts from an S3 service and from files of the AWS tools: profiles, errors, ranges,
// addresses.

#include "runtime/object/object_request.hpp"
#include "runtime/object/object_service.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  return {
      "[default]\naws_access_key_id = A\naws_secret_access_key = B\n",
      "# x\n[profile a]\nregion=eu-west-1\ns3 =\n  nested = 1\n[b]",
      "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>none</Message></Error>",
      "bytes 5-9/10",
      "HTTP/1.1 206 x\r\nETag: \"a\"\r\nContent-Range:bytes 0-3/9\r\nContent-Length:  4\r\n\r\n",
      "s3://lake/deep/a b.bin"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"[",
          "]",
          "=",
          "\r\n",
          "<Code>",
          "</Code>",
          "<Message>",
          "</Message>",
          "bytes ",
          "HTTP/1.1 100\n",
          "ETag:",
          "x-amz-bucket-region: ",
          "Content-Length: ",
          "18446744073709551615",
          "s3://",
          "\xff",
          "\x1b"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  fuzz::accepted([&] { parse_profiles(text, "fuzz"); });
  const auto refusal = parse_refusal(text);
  for (const auto& said : {refusal.code, refusal.message}) {
    fuzz::require(said.size() <= 200, "the text of a service is short");
    for (const unsigned char c : said)
      fuzz::require(c >= 0x20 && c < 0x7f, "the text of a service is printable");
  }
  object_answer head;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size() - 1);
    take_header_line(std::string_view(text).substr(at, end + 1 - at), head);
    at = end + 1;
  }
  for (const auto& said : {head.etag, head.content_range, head.bucket_region})
    for (const unsigned char c : said)
      fuzz::require(c >= 0x20 && c < 0x7f, "the text of a header is printable");
  fuzz::require(head.status == 0 && head.body.empty(), "a header sets no status and no body");
  const auto range = parse_content_range(text);
  fuzz::accepted([&] {
    if (refusal.code.empty() && !range && head.etag.empty())
      throw input_error("the text is not an error, a range or a header of an answer");
  });
  if (range)
    fuzz::require(range->first <= range->last && range->last < range->whole,
                  "a range lies in its object");
  fuzz::accepted([&] {
    const auto object = parse_object_url(text);
    fuzz::require(parse_object_url(to_string(object)) == object,
                  "an object's URL survives a round trip");
    const auto address = address_of({}, object);
    for (const unsigned char c : address)
      fuzz::require(c > 0x20 && c < 0x7f, "an address is printable");
  });
  return 0;
}
