#include "runtime/data/text_reader.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/record_reader.hpp"

namespace troupe::runtime {

text_format text_format_of(const std::filesystem::path& path) {
  const auto name = without_compression(path);
  return name.extension() == ".jsonl" || name.extension() == ".json" ? text_format::jsonl
                                                                     : text_format::paragraphs;
}

text_format parse_text_format(std::string_view name) {
  if (name == "jsonl")
    return text_format::jsonl;
  if (name == "paragraphs")
    return text_format::paragraphs;
  if (name == "lines")
    return text_format::lines;
  if (name == "whole")
    return text_format::whole;
  throw input_error("cannot read text as '{}': it must be jsonl, paragraphs, lines or whole", name);
}

void for_each_document(const std::filesystem::path& path,
                       const text_options& options,
                       const document_visitor& visit) {
  record_reader from(path, options.format);
  record_parser parser(path, options.format, {options.json_key});
  for (text_record record; from.next(record);)
    visit(parser.parse(record, false).front().front(), from.file_bytes());
}

}  // namespace troupe::runtime
