#include "workloads/command_line.h"

#include <boost/program_options.hpp>

namespace ddl {

namespace po = boost::program_options;

po::variables_map parse_command_line(int argc, const char* const* argv, const po::options_description& description) {
  constexpr int kStyle = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  po::variables_map map;
  po::store(po::command_line_parser(argc, argv).options(description).positional({}).style(kStyle).run(), map);
  po::notify(map);
  return map;
}

}  // namespace ddl
