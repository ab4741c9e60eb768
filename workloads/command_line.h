#pragma once

#include <boost/program_options.hpp>

namespace ddl {

/** Options only, no words, and no abbreviations: a script's "--step" must not change its meaning when another option comes along. Throws
 * po::error. */
inline boost::program_options::variables_map parse_command_line(int argc, const char* const* argv,
                                                                const boost::program_options::options_description& description) {
  namespace po = boost::program_options;
  constexpr int kStyle = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  po::variables_map map;
  po::store(po::command_line_parser(argc, argv).options(description).positional({}).style(kStyle).run(), map);
  po::notify(map);
  return map;
}

}  // namespace ddl
