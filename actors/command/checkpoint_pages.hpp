// What `troupe checkpoint` prints: 80 columns, or JSON.

#pragma once

#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/listing.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace troupe::command {

constexpr std::size_t page_width = 80, title_width = 12;  ///< in columns

/// "2026-11-21 05:23", local; empty for no time.
std::string minute(std::chrono::system_clock::time_point when);

/// `ls`: a line for each.
std::string list_page(const std::vector<runtime::listed_checkpoint>& all);
nlohmann::ordered_json list_json(const std::vector<runtime::listed_checkpoint>& all);

/// `show`: what a checkpoint says of itself.
std::string show_page(const runtime::listed_checkpoint& x, bool tensors);
nlohmann::ordered_json show_json(const runtime::listed_checkpoint& x, bool tensors);

/// `diff`: how two differ. Compares every element of every tensor. Throws input_error for damage.
nlohmann::ordered_json diff_json(const runtime::checkpoint_reader& a,
                                 const runtime::checkpoint_reader& b);
/// What diff_json found, as text for a terminal.
std::string diff_page(const nlohmann::ordered_json& found);

}  // namespace troupe::command
