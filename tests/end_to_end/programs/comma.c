/* A tuned job in the locale that its environment names. Prints what ddl_tuned() made of its knobs, in thousandths. */
#include <ddl/annotate.h>
#include <locale.h>
#include <stdio.h>

int main(void) {
  setlocale(LC_ALL, "");
  ddl_tune(1);
  printf("point %s knob %d whole %d comma %d", localeconv()->decimal_point, (int)(ddl_tuned("KNOB", 9) * 1000),
         (int)(ddl_tuned("WHOLE", 9) * 1000), (int)(ddl_tuned("COMMA", 9) * 1000));
  printf(" environment %d\n", (int)(ddl_tuned("FROM_ENVIRONMENT", 9) * 1000));
  return 0;
}
